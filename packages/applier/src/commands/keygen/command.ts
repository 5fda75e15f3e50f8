import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced keygen`. */
export function addKeygen(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('keygen')), ['sluiced keygen', 'sluiced keygen --renew'])
    .summary('make the key that signs receipts')
    .description(
      'Creates the key that signs the receipts of this node, and prints its line for allowed_receipts. An existing key is kept.',
    )
    .option('--renew', 'replace an existing key')
    .action((options) => finish(async () => (await import('./keygen.ts')).keygen(options, terminal)));
}

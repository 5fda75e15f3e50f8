import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced cleanup`. */
export function addCleanup(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('cleanup')), ['sluiced cleanup'])
    .summary('remove all rules of Sluice from the kernel')
    .description('Removes all rules of Sluice from the kernel and restores the sysctls. Foreign rules are not changed.')
    .action((options) => finish(async () => (await import('./cleanup.ts')).cleanup(options, terminal)));
}

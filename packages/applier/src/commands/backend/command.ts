import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced backend`. */
export function addBackend(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('backend').argument('[STORE]', 'nft or legacy')), [
    'sluiced backend               # shows the rule store in use, and foreign rules in both stores',
    'systemctl stop sluiced && sluiced backend nft && systemctl start sluiced',
  ])
    .summary('show the rule store in use, or move the rules')
    .description(
      'Shows which rule store holds the rules, nf_tables or legacy, and the foreign rules in both; or moves the rules to the other store without interrupting traffic. Exit code 1 when the store in use looks wrong.',
    )
    .action((wanted: string | undefined, options) =>
      finish(async () => (await import('./backend.ts')).backend(wanted, options, terminal)),
    );
}

import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced recover`. */
export function addRecover(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('recover')), ['sluiced recover && systemctl start sluiced'])
    .summary('take over the rules in the kernel after the state directory was lost')
    .description(
      'Takes over the rules in the kernel as the active generation, on a node whose state directory was lost. Changes no rule. Exit code 3 when that is not possible.',
    )
    .action((options) => finish(async () => (await import('./recover.ts')).recover(options, terminal)));
}

import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced history`. */
export function addHistory(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('history')), ['sluiced history', 'sluiced history | tail -n 5'])
    .summary('list the changes on this node')
    .description('Lists the changes on this node, newest last, each with the version before and after it.')
    .action((options) => finish(async () => (await import('./history.ts')).history(options, terminal)));
}

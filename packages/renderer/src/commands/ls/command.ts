import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';

/** Adds `sluice ls`. */
export function addLs(program: Command): void {
  examples(program.command('ls'), [
    'sluice ls',
    "sluice ls rendered -o json | jq -r '.nodes[].version' | sort | uniq -c",
  ])
    .summary('list profiles, nodes and their versions')
    .description('Lists profiles and nodes with their versions. Nodes with the same version have the same rules.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./ls.ts')).lsCommand(dir, options)));
}

import { examples, reportOption, pathOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice pack`. */
export function addPack(program: Command): void {
  examples(program.command('pack'), [
    'sluice pack release --node node-a -o node-a.tar.zst',
    'sluice pack release --all -o release.tar.zst',
    'sluice pack release --node node-a --base release.old -o node-a.changes.tar.zst',
  ])
    .summary('pack a release into one file, for one node or all')
    .description(
      'Writes an archive of a release, or of the files that one node needs, for `sluiced import`. The same release gives the same bytes. Prints the digest.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--node <NAME>', 'include only the files that this node needs', notEmpty)
    .addOption(new Option('--all', 'include the files of all nodes').conflicts('node'))
    .option('--base <DIR>', 'include only differences from this release, which the nodes already have', notEmpty)
    .addOption(pathOption('FILE', 'the archive, such as node-a.tar.zst; - for standard output'))
    .addOption(reportOption())
    .action(run(async (options, dir) => (await import('./pack.ts')).packCommand(dir, options)));
}

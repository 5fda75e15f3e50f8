import { type Command, Option } from 'commander';
import { examples, notEmpty, run } from './options.ts';

/** From a release directory to wherever nodes are. */
export function carryCommands(program: Command): void {
  examples(program.command('pack'), [
    'sluice pack release --node node-a -o node-a.tar.zst',
    'sluice pack release --all -o release.tar.zst',
    'sluice pack release --node node-a --base release.old -o node-a.changes.tar.zst',
  ])
    .summary('put a release into one file, for one node or for all')
    .description(
      'Writes an archive of a release, or of what one node needs of it, that `sluiced import` takes. The same release gives the same bytes. Prints the digest.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--node <NAME>', 'only what this node needs', notEmpty)
    .addOption(new Option('--all', 'everything').conflicts('node'))
    .option('--base <DIR>', 'only what this release, which the nodes have, does not have', notEmpty)
    .requiredOption('-o, --output <FILE>', 'the archive, such as node-a.tar.zst', notEmpty)
    .action(run(async (options, dir) => (await import('../commands/pack.ts')).packCommand(dir, options)));
}

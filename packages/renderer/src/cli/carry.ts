import { examples, outputOption, reportOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { notEmpty, run } from '../commands/options/options.ts';

/** Adds the commands that transport releases: `pack`, `push` and `pull`. */
export function carryCommands(program: Command): void {
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
    .requiredOption('-o, --output <FILE>', 'the archive, such as node-a.tar.zst; - for standard output', notEmpty)
    .addOption(reportOption())
    .action(run(async (options, dir) => (await import('../commands/pack/pack.ts')).packCommand(dir, options)));

  examples(program.command('push'), ['sluice push release registry.example.com/sluice/shop:42'])
    .summary('push a release to a registry')
    .description(
      'Pushes a release and its signatures to a container registry. Credentials come from the docker config. Prints the reference by digest.',
    )
    .argument('<DIR>', 'a release directory')
    .argument('<REF>', 'REGISTRY/REPOSITORY:TAG')
    .addOption(plainHttp())
    .addOption(outputOption())
    .action(
      run(async (options, dir, ref) => (await import('../commands/push/push.ts')).pushCommand(dir, ref, options)),
    );

  examples(program.command('pull'), [
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" -o release',
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" --node node-a -o release',
  ])
    .summary('pull a release from a registry')
    .description('Pulls a release and its signatures by digest and writes a release directory.')
    .argument('<REF>', 'REGISTRY/REPOSITORY@sha256:DIGEST, as `sluice push` prints it')
    .option('--node <NAME>', 'include only the files that this node needs', notEmpty)
    .addOption(plainHttp())
    .requiredOption('-o, --output <DIR>', 'the release directory', notEmpty)
    .addOption(reportOption())
    .action(run(async (options, ref) => (await import('../commands/pull/pull.ts')).pullCommand(ref, options)));
}

const plainHttp = (): Option =>
  new Option('--plain-http', 'use HTTP instead of HTTPS, also for a registry on another machine');

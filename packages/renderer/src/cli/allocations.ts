import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { notEmpty, run, withInput } from './options.ts';

/** What Sluice gave to Services. */
export function allocationsCommands(program: Command): void {
  const allocations = program
    .command('allocations')
    .summary('addresses and ports that Sluice gave to Services')
    .description(
      'Addresses and ports that Sluice gave to Services; `render` keeps them in allocations/ beside the config.',
    );

  examples(allocations.command('fix'), [
    'git merge origin/main',
    'sluice allocations fix -c sluice.yaml --base-branch origin/main',
  ])
    .summary('move one of two allocations that hold one number')
    .description('Moves the allocation that the base branch does not have, where two files hold one address or port.')
    .requiredOption('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it', notEmpty)
    .requiredOption('--base-branch <REV>', 'the revision whose allocations stay, such as origin/main', notEmpty)
    .addOption(outputOption())
    .action(run(async (options) => (await import('../commands/allocations.ts')).fixCommand(options)));

  examples(withInput(allocations.command('manifests')), [
    'sluice allocations manifests -f manifests/ -c sluice.yaml | kubectl apply -f -',
  ])
    .summary('print the Services with their numbers filled in')
    .description('Prints the Services with their numbers filled in, so that an API server adopts them.')
    .addOption(outputOption())
    .action(run(async (options) => (await import('../commands/allocations.ts')).manifestsCommand(options)));

  examples(withInput(allocations.command('prune')), [
    'sluice allocations prune -f manifests/ -R -c sluice.yaml          # lists them; exit code 1 when there are some',
    'sluice allocations prune -f manifests/ -R -c sluice.yaml --yes    # removes them',
  ])
    .summary('remove allocations of Services that are gone')
    .description(
      'Lists, and with --yes removes, allocations of Services that the input does not have. The input has to name every Service: the next render may give the number of a removed allocation to another Service. Run it once all nodes run a release without the Services that are gone, and after branches that add Services are merged.',
    )
    .option('--yes', 'remove them')
    .addOption(outputOption())
    .action(run(async (options) => (await import('../commands/prune.ts')).pruneCommand(options)));
}

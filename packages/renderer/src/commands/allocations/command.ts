import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { withInput } from '../options/options.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice allocations` and its subcommands. */
export function addAllocations(program: Command): void {
  const allocations = program
    .command('allocations')
    .summary('manage the addresses and ports that Sluice allocated')
    .description(
      'Manages the addresses and ports that Sluice allocated to Services; `render` stores them in allocations/ beside the config.',
    );

  examples(allocations.command('fix'), [
    'git merge origin/main',
    'sluice allocations fix -c sluice.yaml --base-branch origin/main',
  ])
    .summary('resolve duplicate allocations after a merge')
    .description(
      'Where two files allocate the same address or port, gives the allocation that is not on the base branch a new one.',
    )
    .requiredOption('-c, --config <FILE>', 'the SluiceConfig; allocations/ is beside it', notEmpty)
    .requiredOption('--base-branch <REV>', 'the revision whose allocations are kept, such as origin/main', notEmpty)
    .addOption(outputOption())
    .action(run(async (options) => (await import('./fix.ts')).fixCommand(options)));

  examples(withInput(allocations.command('manifests')), [
    'sluice allocations manifests -f manifests/ -c sluice.yaml | kubectl apply -f -',
  ])
    .summary('print the Services with their allocations filled in')
    .description(
      'Prints the Services with their allocated addresses and ports filled in, so that an API server adopts them.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('./manifests.ts')).manifestsCommand(options)));

  examples(withInput(allocations.command('prune')), [
    'sluice allocations prune -f manifests/ -R -c sluice.yaml          # lists them; exit code 1 if there are any',
    'sluice allocations prune -f manifests/ -R -c sluice.yaml --yes    # removes them',
  ])
    .summary('remove allocations of deleted Services')
    .description(
      'Lists, and with --yes removes, allocations of Services that are not in the input. The input must contain every Service: the next render may reuse the address or port of a removed allocation. Run it after all nodes run a release without the deleted Services and after branches that add Services are merged.',
    )
    .option('--yes', 'remove them instead of listing them')
    .addOption(outputOption())
    .action(run(async (options) => (await import('./prune.ts')).pruneCommand(options)));
}

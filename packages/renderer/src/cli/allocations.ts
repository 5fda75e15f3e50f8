import { examples } from '@sluice/cli';
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
    .action(run(async (options) => (await import('../commands/allocations.ts')).fixCommand(options)));

  examples(withInput(allocations.command('manifests')), [
    'sluice allocations manifests -f manifests/ -c sluice.yaml | kubectl apply -f -',
  ])
    .summary('print the Services with their numbers filled in')
    .description('Prints the Services with their numbers filled in, so that an API server adopts them.')
    .action(run(async (options) => (await import('../commands/allocations.ts')).manifestsCommand(options)));
}

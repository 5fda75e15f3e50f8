import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty } from '../options/values.ts';

/** Adds `sluice policy`. */
export function addPolicy(program: Command): void {
  examples(
    program.command('policy'),
    [
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered',
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered -o sarif > policy.sarif',
      'sluice policy rendered -c sluice.yaml -f manifests/ -f nodes.yaml',
      'sluice policy main:rendered --today 2027-01-01     # waivers that will have expired',
    ],
    'Exit codes: 0 passed; 1 an error that is not waived; 2 the bundle or the config cannot be read.',
  )
    .summary('check a bundle against the policy')
    .description(
      'Checks a bundle, or a change to it, for foreign addresses, open source ranges, lost endpoints, ' +
        'overlapping addresses, annotations without effect and ' +
        'single points of failure. `policy` in the config sets levels, limits and waivers; /usr/share/doc/sluice/policy.md lists the rules.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--base <DIR>', 'the bundle that it replaces, for the rules about changes', notEmpty)
    .option(
      '-f, --filename <FILE|DIR|->',
      'the manifests or the snapshot that was rendered, for the rules about input; may be repeated',
      collect,
    )
    .option('-R, --recursive', 'read directories of -f recursively')
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`', notEmpty)
    .option('--strict', 'treat warnings as errors')
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .addOption(outputOption('sarif', 'junit', 'markdown'))
    .action(run(async (options, dir) => (await import('./policy.ts')).policyCommand(dir, options)));
}

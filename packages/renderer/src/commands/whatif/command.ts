import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty, percent } from '../options/values.ts';

/** Adds `sluice what-if`. */
export function addWhatIf(program: Command): void {
  examples(
    program.command('what-if'),
    [
      'sluice what-if rendered                             # every zone and node, the worst first',
      'sluice what-if rendered --without node=node-a',
      'sluice what-if rendered --without zone=z1 --without node=node-7   # both at once',
      'sluice what-if rendered --without endpoint=10.244.1.5:8080 -o json',
      'sluice what-if main:rendered -c sluice.yaml --share 60 --exit-code',
    ],
    'Exit codes: 0 done; 1 with --exit-code: a failure takes something from clients; 2 the bundle or the config cannot be read.',
  )
    .summary('list what a failed node, zone or endpoint takes from clients')
    .description(
      'Judges failures by what the Services of a bundle declare: which ports lose all endpoints, or those of some nodes (policy Local); ' +
        'which frontends no node answers for clients from outside; which zones lose the endpoints that hints gave them; ' +
        'which endpoint gets too large a share; which rules of the policy are broken then. ' +
        'An endpoint whose node or zone the bundle does not say survives their failures; the output counts them.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--without <KIND=NAME>',
      'what fails: node=NAME, zone=NAME or endpoint=ADDRESS[:PORT]; repeated: all at once; default: each zone and node in turn',
      collect,
    )
    .option('--endpoints', 'judge each endpoint in turn, too')
    .option('--share <PERCENT>', "the most of a port's connections that one endpoint may get", percent)
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`: levels, waivers, survives.sharePercent', notEmpty)
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .option('--exit-code', 'exit with 1 when a failure takes something from clients')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./what-if.ts')).whatIfCommand(dir, options)));
}

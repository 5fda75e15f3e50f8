import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { notEmpty, run } from '../commands/options/options.ts';

/** Adds the commands for pipelines: `policy`, `report` and `krm`. */
export function gateCommands(program: Command): void {
  examples(
    program.command('policy'),
    [
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered',
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered -o sarif > policy.sarif',
      'sluice policy main:rendered --today 2027-01-01     # waivers that will have expired',
    ],
    'Exit codes: 0 passed, 1 an error that is not waived, 2 the bundle or the config cannot be read.',
  )
    .summary('check a bundle against the policy')
    .description(
      'Checks a bundle, or a change to it, for foreign addresses, open source ranges, lost endpoints and ' +
        'single points of failure. `policy` in the config sets levels, limits and waivers; /usr/share/doc/sluice/policy.md lists the rules.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--base <DIR>', 'the bundle that it replaces, for the rules about changes', notEmpty)
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`', notEmpty)
    .option('--strict', 'treat warnings as errors')
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .addOption(outputOption('sarif', 'junit', 'markdown'))
    .action(run(async (options, dir) => (await import('../commands/policy/policy.ts')).policyCommand(dir, options)));

  examples(
    program.command('report'),
    [
      'sluice report origin/main:rendered rendered -o html > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml -o markdown --comment > comment.md',
    ],
    'Exit codes: 0 equivalent, 1 different, 2 one of them cannot be read.',
  )
    .summary('write a page or a comment on the changes between two bundles')
    .description(
      'Writes a self-contained page with a drawing, a searchable table of flows and the rules; or text for a comment on a pull request.',
    )
    .argument('<OLD>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'the SluiceConfig; the report includes the results of its `policy`', notEmpty)
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .option('--comment', 'with markdown: at most 60,000 characters, with a count of omitted rows')
    .option('--report-url <URL>', 'with markdown: a link to the full report', notEmpty)
    .addOption(outputOption('html', 'markdown').default('html'))
    .action(
      run(async (options, old, fresh) =>
        (await import('../commands/report/report.ts')).reportCommand(old, fresh, options),
      ),
    );

  examples(
    program.command('krm'),
    [
      'kustomize build --enable-alpha-plugins --enable-exec .     # with integrations/kustomize',
      'sluice krm < list.yaml',
    ],
    'Exit codes: 0 done, 1 `check` is set and the bundle directory is out of date, 2 a problem, reported in `results` and on standard error.',
  )
    .summary('run as a function of kustomize or kpt')
    .description(
      'Reads a ResourceList from standard input and prints it with `results`; items are passed through unchanged. `spec` of its functionConfig ' +
        '(apiVersion sluice.dev/v1alpha1, kind SluiceFunction) has output, the bundle directory to write; config; base; check; strict. ' +
        'Without output, the items are rendered and nothing is written.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('../commands/krm/krm.ts')).krmCommand(options)));
}

import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { notEmpty, run } from './options.ts';

/** What a pipeline asks before a change may go on. */
export function gateCommands(program: Command): void {
  examples(
    program.command('policy'),
    [
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered',
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered -o sarif > policy.sarif',
      'sluice policy main:rendered --today 2027-01-01     # which waivers will have expired',
    ],
    'Exit codes: 0 nothing fails, 1 an error that nobody waived, 2 the bundle or the config cannot be read.',
  )
    .summary('hold a bundle against the rules of its owners')
    .description(
      'Looks for what should not be in a bundle or in a change of it: addresses of others, open source ranges, lost endpoints, ' +
        'single points of failure. `policy` of the config sets levels, bounds and waivers; /usr/share/doc/sluice/policy.md lists the rules.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--base <DIR>', 'what the bundle replaces, for the rules about changes', notEmpty)
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`', notEmpty)
    .option('--strict', 'take warnings for errors')
    .option('--today <DAY>', 'the day on which waivers are looked at, such as 2026-12-31', notEmpty)
    .addOption(outputOption('sarif', 'junit', 'markdown'))
    .action(run(async (options, dir) => (await import('../commands/policy.ts')).policyCommand(dir, options)));

  examples(
    program.command('report'),
    [
      'sluice report origin/main:rendered rendered -o html > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml -o markdown --comment > comment.md',
    ],
    'Exit codes: 0 both behave alike, 1 they differ, 2 one of them cannot be read.',
  )
    .summary('make a page or a comment on what changes between two bundles')
    .description(
      'Makes one page that needs no network, with a drawing, a table of flows to search and the rules; or text for a comment on a ' +
        'pull request.',
    )
    .argument('<OLD>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'the SluiceConfig: the report says what its `policy` says', notEmpty)
    .option('--today <DAY>', 'the day on which waivers are looked at, such as 2026-12-31', notEmpty)
    .option('--comment', 'with markdown: at most 60,000 characters, and say what is cut')
    .option('--report-url <URL>', 'with markdown: where the whole report is', notEmpty)
    .addOption(outputOption('html', 'markdown').default('html'))
    .action(
      run(async (options, old, fresh) => (await import('../commands/report.ts')).reportCommand(old, fresh, options)),
    );

  examples(
    program.command('krm'),
    [
      'kustomize build --enable-alpha-plugins --enable-exec .     # with integrations/kustomize',
      'sluice krm < list.yaml',
    ],
    'Exit codes: 0 done, 1 `check` is set and the bundle directory is stale, 2 a problem; `results` and standard error name it.',
  )
    .summary('be a function of kustomize or kpt')
    .description(
      'Reads a ResourceList from standard input and prints it with `results`; items go through untouched. `spec` of its functionConfig ' +
        '(apiVersion sluice.dev/v1alpha1, kind SluiceFunction) has output, the bundle directory to write; config; base; check; strict. ' +
        'Without output the items are rendered and nothing is written.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('../commands/krm.ts')).krmCommand(options)));
}

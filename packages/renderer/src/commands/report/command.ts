import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice report`. */
export function addReport(program: Command): void {
  examples(
    program.command('report'),
    [
      'sluice report origin/main:rendered rendered -o html > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml --what-if > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml --summary > summary.md',
      'sluice report origin/main:rendered rendered -c sluice.yaml -o markdown --comment > comment.md',
    ],
    'Exit codes: 0 equivalent; 1 different; 2 one of them cannot be read.',
  )
    .summary('write a page or a comment on the changes between two bundles')
    .description(
      'Writes a self-contained page: what changes by severity, a drawing, the cluster by namespaces and zones, flows and rules; or text for a pull request.',
    )
    .argument('<OLD>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'the SluiceConfig; the report includes the results of its `policy`', notEmpty)
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .option(
      '--what-if',
      'with the failures of single zones and nodes of the new bundle, as `sluice what-if` judges them',
    )
    .addOption(new Option('--summary', 'Markdown of at most 60 lines, by severity').conflicts(['comment', 'output']))
    .option('--comment', 'with markdown: at most 60,000 characters, with a count of omitted rows')
    .option('--report-url <URL>', 'with markdown: a link to the full report', notEmpty)
    .addOption(outputOption('html', 'markdown').default('html'))
    .action(run(async (options, old, fresh) => (await import('./report.ts')).reportCommand(old, fresh, options)));
}

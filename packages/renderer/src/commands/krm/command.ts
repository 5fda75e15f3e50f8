import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';

/** Adds `sluice krm`. */
export function addKrm(program: Command): void {
  examples(
    program.command('krm'),
    [
      'kustomize build --enable-alpha-plugins --enable-exec .     # with integrations/kustomize',
      'sluice krm < list.yaml',
    ],
    'Exit codes: 0 done; 1 `check` is set and the bundle directory is out of date; 2 a problem, reported in `results` and on standard error.',
  )
    .summary('run as a function of kustomize or kpt')
    .description(
      'Reads a ResourceList from standard input and prints it with `results`; items are passed through unchanged. `spec` of its functionConfig ' +
        '(apiVersion sluice.dev/v1alpha1, kind SluiceFunction) has output, the bundle directory to write; config; base; check; strict. ' +
        'Without output, the items are rendered and nothing is written.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('./krm.ts')).krmCommand(options)));
}

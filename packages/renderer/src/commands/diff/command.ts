import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty } from '../options/values.ts';

/** Adds `sluice diff`. */
export function addDiff(program: Command): void {
  examples(
    program.command('diff'),
    [
      'sluice diff main:rendered rendered',
      'sluice diff origin/main:rendered HEAD:rendered -o markdown > comment.md',
      'sluice diff rendered.old rendered --raw',
      'KUBECTL_EXTERNAL_DIFF=integrations/kubectl-diff kubectl diff -f manifests/',
    ],
    'Exit codes: 0 equivalent; 1 different; 2 one of them cannot be read.',
  )
    .summary('show the changes between two bundles and their effect on traffic')
    .description('Compares two bundles by their effect: Services, endpoints, node ports and traffic changes.')
    .argument('<OLD>', 'a bundle directory, a Git revision of one (REV:PATH), or a directory of manifests')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'with manifests: the SluiceConfig to render them with', notEmpty)
    .option('--base <SNAPSHOT>', 'with manifests: the base of both; may be repeated', collect)
    .addOption(outputOption('markdown', 'html'))
    .option('--raw', 'print a unified diff of the files instead')
    .action(run(async (options, old, fresh) => (await import('./diff.ts')).diffCommand(old, fresh, options)));
}

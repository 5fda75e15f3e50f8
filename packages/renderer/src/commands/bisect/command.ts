import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { withReceipts } from '../options/trace.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice bisect`. */
export function addBisect(program: Command): void {
  const command = examples(
    program.command('bisect'),
    [
      'sluice bisect --from v1.4 -- trace --node node-a --from 10.244.1.7 --to shop/web:80',
      'sluice bisect --from 2026-11-01 --to 2026-11-24T08:00:00Z -- trace rendered --node node-a --from 198.51.100.7 --to 203.0.113.9:80/tcp',
      'sluice bisect --from HEAD~1000 --ignore-endpoints -- trace --node node-a --from node --to shop/web:http',
    ],
    'Exit codes: 0 found; 1 several commits are left, because nothing can be said about them; 2 the ends do not differ, or cannot be read.',
  )
    .summary('find the commit that changed the outcome of a packet')
    .description(
      'Halves the history of a bundle, as `git bisect` does, until the commit is found with which a packet is treated as it is at the end. ' +
        'Objects of the Git clone are read; the work tree is not touched. Commits without a valid bundle or without the node are skipped. ' +
        'A merge counts as one commit.',
    )
    .argument('<COMMAND...>', 'after --: trace [DIR] with the options of `sluice trace`')
    .requiredOption(
      '--from <REV|TIME>',
      'the start: a commit, branch or tag, or a time; the packet is treated otherwise there',
      notEmpty,
    )
    .option('--to <REV|TIME>', 'the end', notEmpty, 'HEAD')
    .option(
      '--ignore-endpoints',
      'only whether connections are served, rejected or dropped counts, not by which endpoints',
    );
  withReceipts(command)
    .addOption(outputOption())
    .action(run(async (options, words) => (await import('./bisect.ts')).bisectCommand(words, options)));
}

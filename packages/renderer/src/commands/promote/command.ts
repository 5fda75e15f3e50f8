import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice promote`. */
export function addPromote(program: Command): void {
  examples(program.command('promote'), [
    'sluice promote release --key ~/.ssh/waves                     # the first wave',
    'sluice promote release --receipts receipts --allowed-receipts allowed_receipts --key ~/.ssh/waves',
  ])
    .summary('open the next wave of a release')
    .description(
      'Opens the next wave once all nodes of the open waves have reported that they run the release and no node of a later wave has rejected it in a rehearsal. Otherwise prints the nodes and exits with 1. With a key, it first completes a promotion that was interrupted or unsigned.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--receipts <DIR>', 'a folder of receipts; the first wave needs none', notEmpty)
    .option('--allowed-receipts <FILE>', 'the key of each node: lines printed by `sluiced keygen`', notEmpty)
    .option(
      '--quorum <PERCENT>',
      'how many nodes of the open waves must report success; a single failure always stops',
      percent,
      100,
    )
    .option('--key <FILE>', 'the key to sign with, in namespace sluice-wave', notEmpty)
    .option('--dry-run', 'only report whether the wave can be opened')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./promote.ts')).promoteCommand(dir, options)));
}

function percent(text: string): number {
  if (!/^(?:100|[1-9]\d?)$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 to 100.');
  return Number(text);
}

import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { notEmpty, run } from '../commands/options/options.ts';

/** Adds the commands of staged rollouts: `promote` and `fleet`. */
export function fleetCommands(program: Command): void {
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
    .action(run(async (options, dir) => (await import('../commands/promote/promote.ts')).promoteCommand(dir, options)));

  examples(program.command('fleet'), [
    'sluice fleet receipts --allowed-receipts allowed_receipts --release release',
    'sluice fleet receipts --allowed-receipts allowed_receipts -o html --out receipts/fleet.html',
  ])
    .summary('show the rollout state of every node')
    .description(
      'Reads a folder of receipts, verifies the signatures of the nodes and compares the receipts with a release. Nodes are sorted by state, the worst first, then by name. The page (html) links each node to its receipt, relative to the folder of the page. Exits with 1 if a node is not in the desired state.',
    )
    .argument('<DIR>', 'a folder of receipts')
    .requiredOption('--allowed-receipts <FILE>', 'the key of each node: lines printed by `sluiced keygen`', notEmpty)
    .option('--release <DIR>', 'the release to compare with; default: the newest release in the receipts', notEmpty)
    .option(
      '--out <FILE>',
      'write to this file instead of standard output; without it, links in the page are relative to the current directory',
      notEmpty,
    )
    .addOption(outputOption('html'))
    .action(run(async (options, dir) => (await import('../commands/fleet/fleet.ts')).fleetCommand(dir, options)));
}

function percent(text: string): number {
  if (!/^(?:100|[1-9]\d?)$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 to 100.');
  return Number(text);
}

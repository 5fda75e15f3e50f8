import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { notEmpty, run } from './options.ts';

/** How a release goes out wave by wave, and what the nodes say of it. */
export function fleetCommands(program: Command): void {
  examples(program.command('promote'), [
    'sluice promote release --key ~/.ssh/waves                     # the first wave',
    'sluice promote release --receipts receipts --allowed-receipts allowed_receipts --key ~/.ssh/waves',
  ])
    .summary('open the next wave of a release')
    .description(
      'Changes the one line that says how many waves are open, when the nodes of the open ones have said that they are well, and none of the others has rehearsed the release and refused it. Ends with 1 when not, and says which node. With a key, a promotion that was killed, or had no key, is finished first.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--receipts <DIR>', 'a folder of receipts; the first wave needs none', notEmpty)
    .option('--allowed-receipts <FILE>', 'which key each node has: lines of `sluiced keygen`', notEmpty)
    .option(
      '--quorum <PERCENT>',
      'how many nodes of open waves must have said yes; one that says no always stops',
      percent,
      100,
    )
    .option('--key <FILE>', 'signs the line, with namespace sluice-wave', notEmpty)
    .option('--dry-run', 'only say whether it may be opened')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/promote.ts')).promoteCommand(dir, options)));

  examples(program.command('fleet'), [
    'sluice fleet receipts --allowed-receipts allowed_receipts --release release',
    'sluice fleet receipts --allowed-receipts allowed_receipts -o html --out receipts/fleet.html',
  ])
    .summary('say who runs what, who rolled back, who is silent')
    .description(
      'Reads a folder of receipts, believes those that their nodes have signed, and compares them with a release. Nodes are listed by state, the worst first, then by name, in every form. The page (html) links each node to its receipt, relative to the folder of the page. Ends with 1 when a node is not where it should be.',
    )
    .argument('<DIR>', 'a folder of receipts')
    .requiredOption('--allowed-receipts <FILE>', 'which key each node has: lines of `sluiced keygen`', notEmpty)
    .option(
      '--release <DIR>',
      'the release to hold them against; without it the newest that a receipt speaks of',
      notEmpty,
    )
    .option(
      '--out <FILE>',
      'write there; without it to standard output, and links of a page lead from the current directory',
      notEmpty,
    )
    .addOption(outputOption('html'))
    .action(run(async (options, dir) => (await import('../commands/fleet.ts')).fleetCommand(dir, options)));
}

function percent(text: string): number {
  if (!/^(?:100|[1-9]\d?)$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 to 100.');
  return Number(text);
}

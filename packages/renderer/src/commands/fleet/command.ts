import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty } from '../options/values.ts';

/** Adds `sluice fleet`. */
export function addFleet(program: Command): void {
  examples(program.command('fleet'), [
    'sluice fleet receipts --allowed-receipts allowed_receipts --release release',
    'sluice fleet receipts --allowed-receipts allowed_receipts --parity parity/*.json',
    'sluice fleet receipts --allowed-receipts allowed_receipts -o html --out receipts/fleet.html',
  ])
    .summary('show the rollout state of every node')
    .description(
      'Reads a folder of receipts, verifies the signatures of the nodes and compares the receipts with a release. Nodes are sorted by state, the worst first, then by name. The page (html) links each node to its receipt, relative to the folder of the page. Exits with 1 if a node is not in the desired state.',
    )
    .argument('<DIR>', 'a folder of receipts')
    .requiredOption('--allowed-receipts <FILE>', 'the key of each node: lines printed by `sluiced keygen`', notEmpty)
    .option(
      '--parity <FILES...>',
      'results of `sluice parity -o json`, which say what nodes ran before they had a receipt; after DIR',
      collect,
    )
    .option('--release <DIR>', 'the release to compare with; default: the newest release in the receipts', notEmpty)
    .option(
      '--out <FILE>',
      'write to this file instead of standard output; without it, links in the page are relative to the current directory',
      notEmpty,
    )
    .addOption(outputOption('html'))
    .action(run(async (options, dir) => (await import('./fleet.ts')).fleetCommand(dir, options)));
}

import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice parity`. */
export function addParity(program: Command): void {
  examples(
    program.command('parity'),
    [
      'ssh node-a sluiced observe -o - > node-a.json && sluice parity node-a.json rendered --node node-a',
      'sluice parity node-a.json main:rendered --node node-a -o json > parity.json',
      'sluice parity observed/node-a.json rendered --base main:rendered -o sarif > parity.sarif     # in a pull request',
    ],
    'Exit codes: 0 equivalent; 1 a difference; 2 not everything was compared, or a file cannot be read.',
  )
    .summary('compare the rules that a node runs with a bundle')
    .description(
      'Traces packets of every class of sources to every frontend of either side, through the rules that `sluiced observe` found on a ' +
        'node and through those of a bundle. Prints each difference with an example packet, its cause and what to do. Rules may be those ' +
        'of kube-proxy in any mode, of Sluice, or foreign ones; a rule that cannot be read is named.',
    )
    .argument('<OBSERVED>', 'a file of `sluiced observe`')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--node <NAME>', 'the node in the bundle; default: the node that was observed', notEmpty)
    .option('--base <DIR>', 'leave out differences that this bundle has, too: those of a change remain', notEmpty)
    .addOption(outputOption('sarif', 'junit'))
    .action(run(async (options, observed, dir) => (await import('./parity.ts')).parityCommand(observed, dir, options)));
}

import { examples, findingsOption, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty, upTo } from '../options/values.ts';

/** The options and help of the verbs with which operators move from kube-proxy. */

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
    .addOption(findingsOption())
    .action(
      run(async (options, observed, dir) =>
        (await import('../parity/parity.ts')).parityCommand(observed, dir, options),
      ),
    );
}

/** Adds `sluice certify`. */
export function addCertify(program: Command): void {
  examples(program.command('certify'), [
    'sluice parity node-a.observed release --node node-a -o json > node-a.json; sluice certify node-a.json --key ~/.ssh/parity',
    'sluice certify node-a.json --key ~/.ssh/parity --accept 3f2a91c04bd7e815 --by alice@example.com --hours 2',
  ])
    .summary('sign the result of `sluice parity`')
    .description(
      'Makes a parity certificate of the result of `sluice parity -o json` and signs it in namespace sluice-parity: NODE.parity.json and its signature NODE.parity.json.sig. A node with `requireParity: true` takes over from kube-proxy with a valid one alone. An incomplete result, or a difference that is not accepted, is not certified. Exit code 1 then.',
    )
    .argument('<FILE>', 'the result of `sluice parity -o json`; - for standard input')
    .requiredOption('--key <FILE>', 'the key to sign with', notEmpty)
    .option('--accept <ID>', 'the id of a difference that is accepted; may be repeated', collect)
    .option('--by <NAME>', 'who accepts the differences; required with --accept', notEmpty)
    .option('--hours <HOURS>', 'how long the certificate is valid, at most 24', upTo(24), 24)
    .option('--out <DIR>', 'the directory to write to', notEmpty, '.')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('../certify/certify.ts')).certifyCommand(file, options)));
}

/** Adds `sluice adopt-plan`. */
export function addAdoptPlan(program: Command): void {
  examples(program.command('adopt-plan'), [
    'sluice adopt-plan parity/*.json',
    'kubectl get nodes -o json > nodes.json; sluice adopt-plan parity/*.json --nodes nodes.json --most 50 --waves waves.yaml',
    'sluice adopt-plan parity/*.json --nodes nodes.json --by topology.kubernetes.io/zone --by pool -o json',
  ])
    .summary('order the nodes of a fleet for the move from kube-proxy')
    .description(
      'Orders nodes into waves by what `sluice parity -o json` said of each: a canary of each group, then nodes without a difference, then those with documented differences of modes alone. Nodes that differ otherwise, or were not wholly compared, are in no wave and listed with the reason. Exit code 1 when there are any.',
    )
    .argument('<FILES...>', 'results of `sluice parity -o json`, one for each node')
    .option('--nodes <FILE>', 'the Nodes of the cluster, as `kubectl get nodes -o json` prints them', notEmpty)
    .option('--by <LABEL>', 'a label of Nodes that makes groups; may be repeated', collect)
    .option('--most <COUNT>', 'how many nodes a wave may have; larger ones are in parts', upTo(999_999))
    .option('--waves <FILE>', 'write the waves for `sluice release --wave` to this file', notEmpty)
    .addOption(outputOption())
    .action(
      run(async (options, files) => (await import('../adopt-plan/adopt-plan.ts')).adoptPlanCommand(files, options)),
    );
}

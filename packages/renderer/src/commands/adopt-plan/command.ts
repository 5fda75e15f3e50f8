import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty } from '../options/values.ts';

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
    .option('--most <COUNT>', 'how many nodes a wave may have; larger ones are in parts', count)
    .option('--waves <FILE>', 'write the waves for `sluice release --wave` to this file', notEmpty)
    .addOption(outputOption())
    .action(run(async (options, files) => (await import('./adopt-plan.ts')).adoptPlanCommand(files, options)));
}

function count(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Write a number of nodes, from 1.');
  return Number(text);
}

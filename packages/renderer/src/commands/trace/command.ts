import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { withFlow } from '../options/trace.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice trace`. */
export function addTrace(program: Command): void {
  const command = examples(program.command('trace'), [
    'sluice trace --node node-a --from 10.244.1.7 --to 10.96.0.10:80/tcp',
    'sluice trace --node node-a --from 10.244.1.7 --to shop/web:80 --layout tree',
    'sluice trace --node node-a --from node --to 192.0.2.11:30080/tcp rendered',
    'sluice trace --node node-a --from 198.51.100.7 --in eth0 --to [2001:db8::9]:443/tcp main:rendered',
    'sluice trace --live node-a.json --from 10.244.1.7 --to 10.96.0.10:80/tcp      # a file of `sluiced observe`',
  ])
    .summary('trace a packet through the rules of a node')
    .description("Traces the first packet of a connection through a node's rules, to every endpoint that it may reach.")
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--node <NAME>', 'the node; required without --live', notEmpty)
    .option(
      '--live <FILE>',
      'trace through the rules that `sluiced observe` found on a node, of any program, instead of a bundle',
      notEmpty,
    );
  withFlow(command)
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./trace.ts')).traceCommand(dir, options)));
}

import { examples, reportOption, pathOption } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced observe`. */
export function addObserve(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('observe'), reportOption()), [
    'sluiced observe -o node-a.json',
    'ssh node-a sluiced observe --node node-a -o - > node-a.json && sluice parity node-a.json rendered',
    'sluiced observe --from ticket-4711/ --node node-a -o node-a.json      # saved outputs of iptables-save and others',
    'sluice show --node node-a --host node-a.json',
  ])
    .summary('write the rules and facts of this node to a file')
    .description(
      'Writes the rules of both rule stores, ipsets, virtual servers, tables of nftables, addresses, routes, sysctls and facts of this ' +
        'machine, for `sluice parity`, `sluice trace --live` and `sluice show --host`. Reads the host only, changes nothing, loads no kernel ' +
        'module, and can run beside kube-proxy and the daemon. Exit code 3 unless run as root.',
    )
    .addOption(pathOption('FILE', 'the file to write; - for standard output'))
    .option('--from <DIR>', 'read saved outputs of tools instead of this machine; needs no root')
    .action((options) => finish(async () => (await import('./observe.ts')).observe(options, terminal)));
}

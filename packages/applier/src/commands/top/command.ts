import { examples } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';
import { orders } from '../options/orders.ts';

/** Adds `sluiced top`. */
export function addTop(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    onNode(program.command('top')),
    [
      'sluiced top',
      'sluiced top --sort rate -n 5',
      'sluiced top --sort bytes',
      'sluiced top --service shop/web --once',
      "sluiced top -o json | jq -r '.services[] | [.service, .connections] | @tsv'",
    ],
    'Exit codes: 0 done; 1 --service has no counted connections; 2 nothing is counted; 3 not root.',
  )
    .summary('show connections and bytes of Services and endpoints')
    .description(
      'Shows the Services with most new connections, live connections or bytes, and how new connections are spread over their endpoints: the shares of some minutes, those expected by chance and weights, and a mark where they are far apart. On a terminal it shows them anew every 2 s, until Ctrl-C. New connections are counted where this is switched on: countConnections in the config of sluiced for modes iptables and ipvs, nftables.endpointCounters in the profile for mode nftables. Live connections and bytes need countTraffic in the config; bytes outside of mode ipvs also the sysctl net.netfilter.nf_conntrack_acct = 1, which the profile can set and Linux has off.',
    )
    .option('--once', 'show them once, also on a terminal')
    .option('--service <NS/NAME>', 'only this Service, with all its ports, or one port: shop/web:http')
    .addOption(new Option('--sort <ORDER>', 'what comes first').choices(orders).default('connections'))
    .option('-n, --number <COUNT>', 'at most this many Services', readCount)
    .action((options) => finish(async () => (await import('./top.ts')).top(options, terminal)));
}

function readCount(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError('Pass a number from 1 to 9999.');
  return Number(text);
}

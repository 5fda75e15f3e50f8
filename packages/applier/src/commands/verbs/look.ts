import { examples, findingsOption, pathOption, reportOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type CommandContext, verb } from '../options/context.ts';
import { durationOption, onNode, orders } from '../options/options.ts';

/** The options and help of the verbs with which operators look at this node. */

/** Adds `sluiced status`. */
export function addStatus(program: Command, context: CommandContext): void {
  examples(onNode(program.command('status')), [
    'sluiced status',
    'sluiced status --watch',
    'sluiced status --wait confirmed --timeout 5m',
    "sluiced status -o json | jq -r '.version'",
  ])
    .summary('show the active generation, what is tried, and what comes next')
    .description(
      'Shows the confirmed generation, whether the kernel holds it, the newest release and its fate, a release on probation with its probes, quarantined versions, the health of the daemon, and what happens next by itself. Exit code 5 when the node is halted; 1 when the kernel differs, the daemon is unhealthy, an alarm is raised, the generation is partial, or the daemon is missing.',
    )
    .option('--watch', 'show it again every 2 s until Ctrl-C, where the output is a terminal')
    .addOption(
      new Option(
        '--wait <GOAL>',
        'wait until the newest release is confirmed, the daemon is healthy, or no change is in progress; exit code 4 when the release is rolled back, 3 when it is refused, 1 when the time is over',
      ).choices(['confirmed', 'healthy', 'settled']),
    )
    .addOption(durationOption('--timeout <TIME>', 'how long --wait waits at most, such as 90s, 2m or 1h (default: 2m)'))
    .action(verb(context, async () => (await import('../status/status.ts')).status));
}

/** Adds `sluiced top`. */
export function addTop(program: Command, context: CommandContext): void {
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
      'Shows the Services with most new connections, live connections or bytes, and how new connections are spread over their endpoints: the shares of some minutes, those expected by chance and weights, and a mark where they are far apart. On a terminal it shows them again every 2 s, until Ctrl-C. New connections are counted where this is switched on: countConnections in the config of sluiced for modes iptables and ipvs, nftables.endpointCounters in the profile for mode nftables. Live connections and bytes need countTraffic in the config; bytes outside of mode ipvs also the sysctl net.netfilter.nf_conntrack_acct = 1, which the profile can set and Linux has off.',
    )
    .option('--once', 'show them once, also on a terminal')
    .option('--service <NS/NAME>', 'only this Service, with all its ports, or one port: shop/web:http')
    .addOption(new Option('--sort <ORDER>', 'what comes first').choices(orders).default('connections'))
    .option('-n, --number <COUNT>', 'at most this many Services', readCount)
    .action(verb(context, async () => (await import('../top/top.ts')).top));
}

function readCount(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError('Pass a number from 1 to 9999.');
  return Number(text);
}

/** Adds `sluiced show`. */
export function addShow(program: Command, context: CommandContext): void {
  examples(
    onNode(program.command('show').argument('<SERVICE>', 'namespace/name')),
    ['sluiced show shop/web', "sluiced show shop/web -o json | jq -r '.rules[].lines[].text'"],
    'Exit codes: 0 the kernel matches the active generation; 1 it differs or the Service does not exist; 2 usage error; 3 not root.',
  )
    .summary("print a Service's rules in the kernel and its files")
    .description(
      "Prints a Service's files in the bundle directory, followed by its chains, rules and virtual servers in the kernel under the kernel's names. Lines only in the kernel begin with +, lines only in the active generation with -, draining real servers with ~.",
    )
    .action(verb(context, async () => (await import('../show/show.ts')).show));
}

/** Adds `sluiced history`. */
export function addHistory(program: Command, context: CommandContext): void {
  examples(onNode(program.command('history')), ['sluiced history', 'sluiced history | tail -n 5'])
    .summary('list the changes on this node')
    .description('Lists the changes on this node, newest last, each with the version before and after it.')
    .action(verb(context, async () => (await import('../history/history.ts')).history));
}

/** Adds `sluiced doctor`. */
export function addDoctor(program: Command, context: CommandContext): void {
  examples(
    onNode(
      program
        .command('doctor')
        .argument('[SERVICE|ADDRESS]', 'namespace/name, namespace/name:port, an address, or address:port'),
      findingsOption(),
    ),
    [
      'sluiced doctor',
      'sluiced doctor shop/web',
      'sluiced doctor 10.96.0.10:80',
      'sluiced doctor shop/web --live',
      'sluiced doctor --bundle /root/doctor.tar.gz',
      "sluiced doctor shop/web -o json | jq -r '.cause.code'",
      'sluiced doctor -o junit > doctor.xml',
    ],
    'Exit codes: 0 no cause found; 1 a cause found; 2 usage error; 3 not root.',
  )
    .summary('find out why a Service does not answer')
    .description(
      'Examines this node and names the most likely cause why a Service, an address or any Service does not answer, with the evidence and one command. Sends and writes nothing; with --live it opens connections of its own, whose packets are traced.',
    )
    .option(
      '--live',
      'open one connection to the Service and one to each endpoint, and trace the packets with nftables',
    )
    .option(
      '--bundle <FILE>',
      'also write the diagnosis and what it rests on into a new archive (.tar.gz), without names of Services and public addresses',
    )
    .action(verb(context, async () => (await import('../doctor/doctor.ts')).doctor));
}

/** Adds `sluiced observe`. */
export function addObserve(program: Command, context: CommandContext): void {
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
    .action(verb(context, async () => (await import('../observe/observe.ts')).observe));
}

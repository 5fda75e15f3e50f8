import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { collect, notEmpty, run } from './options.ts';

const layout = (): Option =>
  new Option('--layout <LAYOUT>', "how rules are put together: under kube-proxy's names, or as trees under our own")
    .choices(['flat', 'tree'])
    .default('flat');

/** What bundles do to traffic, before any node does it. */
export function reviewCommands(program: Command): void {
  examples(
    program.command('diff'),
    [
      'sluice diff main:rendered rendered',
      'sluice diff origin/main:rendered HEAD:rendered -o markdown > comment.md',
      'sluice diff rendered.old rendered --raw',
      'KUBECTL_EXTERNAL_DIFF=integrations/kubectl-diff kubectl diff -f manifests/',
    ],
    'Exit codes: 0 both behave alike, 1 they differ, 2 one of them cannot be read.',
  )
    .summary('say what changes between two bundles, and for which traffic')
    .description(
      'Compares two bundles by what they do: Services, endpoints, node ports and the traffic that is treated differently.',
    )
    .argument('<OLD>', 'a bundle directory, a Git revision of one (REV:PATH), or a directory of manifests')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'with manifests: the SluiceConfig by which they are rendered', notEmpty)
    .option('--base <SNAPSHOT>', 'with manifests: what both are laid over; may be repeated', collect)
    .addOption(outputOption('markdown', 'html'))
    .option('--raw', 'the files as a unified diff instead')
    .action(run(async (options, old, fresh) => (await import('../commands/diff.ts')).diffCommand(old, fresh, options)));

  examples(program.command('trace'), [
    'sluice trace --node node-a --from 10.244.1.7 --to 10.96.0.10:80/tcp',
    'sluice trace --node node-a --from 10.244.1.7 --to shop/web:80 --layout tree',
    'sluice trace --node node-a --from node --to 192.0.2.11:30080/tcp rendered',
    'sluice trace --node node-a --from 198.51.100.7 --in eth0 --to [2001:db8::9]:443/tcp main:rendered',
  ])
    .summary('follow a packet through the rules of a node')
    .description("Follows the first packet of a connection through a node's rules, with every endpoint it may reach.")
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .requiredOption('--node <NAME>', 'the node', notEmpty)
    .requiredOption('--from <ADDRESS>', 'where it comes from; `node` is the node itself', notEmpty)
    .requiredOption(
      '--to <ADDRESS:PORT/PROTO|SERVICE:PORT>',
      'where it goes to; of a Service (shop/web:80, shop/web:http), its ClusterIP',
      notEmpty,
    )
    .option(
      '--in <INTERFACE>',
      'the interface that it comes in by; left out: the one that such a source usually has',
      notEmpty,
    )
    .addOption(layout())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/trace.ts')).traceCommand(dir, options)));

  examples(
    program.command('prove'),
    ['sluice prove rendered', 'sluice prove main:rendered -o json', 'sluice prove rendered --alike'],
    'Exit codes: 0 everything is as it must be, 1 something is not, 2 the bundle cannot be read.',
  )
    .summary('check that rules do what their Services declare')
    .description(
      'Follows packets of every source class to every address and port of every Service, on every kind of node, and checks ' +
        'that they reach the declared endpoints with their shares, or are turned away as the policies say. What the base files do ' +
        'with connections that stand, with marks and with addresses that they name is held against kube-proxy.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--alike',
      'instead, check that profiles of both modes serve the Services alike, up to the published differences, and so do layouts flat and tree',
    )
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/prove.ts')).proveCommand(dir, options)));

  examples(program.command('explain'), [
    'sluice explain KUBE-SVC-ERIFXISQEP7F7OF4',
    'sluice explain SLU-SVC-ERIFXISQEP7F7OF4.7m                # as a kernel in layout tree has it',
    `sluice explain -- '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ERIFXISQEP7F7OF4'`,
    'sluice explain shop/web --dir rendered -f manifests/ --blame',
    'sluice explain 10.96.0.10:80',
    'sluice explain SLUICE-T-2RU4R2FUDKAURQV7.67 --node node-a',
    "sluice explain 'TCP  10.96.0.10:80 wrr'",
  ])
    .summary('say which Service a chain, a rule or an address belongs to')
    .description(
      'Finds the Service and the port of a chain of either layout, a set, an address or a line of iptables-save, ipvsadm -Ln or ipset list; its lines in the bundle, its manifest and who wrote that.',
    )
    .argument(
      '<RULE|CHAIN|SERVICE|ADDRESS>',
      'a line of iptables-save, ipvsadm -Ln or ipset list, the name of a chain or a set, a Service (shop/web), or an address, with or without a port',
    )
    .option('--dir <DIR>', 'a bundle directory, or a Git revision of one', notEmpty, 'rendered')
    .option(
      '--node <NAME>',
      'the node whose rules have a chain of layout tree that no file has (SLUICE-T-...); left out: the first one of each profile',
      notEmpty,
    )
    .option('-f, --manifests <FILE|DIR>', 'manifests in which to look for the Service', notEmpty)
    .option('--blame', 'who last changed its first line, and in which commit')
    .addOption(outputOption())
    .action(run(async (options, rule) => (await import('../commands/explain.ts')).explainCommand(rule, options)));

  examples(
    program.command('cost'),
    ['sluice cost rendered', 'sluice cost rendered -c sluice.yaml -o json'],
    'Exit codes: 0 within the budgets, 1 beyond one, 2 the bundle cannot be read.',
  )
    .summary('say what a bundle costs its nodes, and fail past a budget')
    .description('Counts rules, chains, bytes and the longest way of a packet, and estimates how long the tools load.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('-c, --config <FILE>', 'the SluiceConfig with `budgets`', notEmpty)
    .addOption(layout())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/cost.ts')).costCommand(dir, options)));
}

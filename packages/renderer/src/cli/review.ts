import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { collect, notEmpty, run } from '../commands/options/options.ts';

const layout = (): Option =>
  new Option('--layout <LAYOUT>', "the layout of the rules: flat (kube-proxy's chain names) or tree (Sluice's)")
    .choices(['flat', 'tree'])
    .default('flat');

/** Adds the commands that analyse bundles: `diff`, `trace`, `prove`, `explain` and `cost`. */
export function reviewCommands(program: Command): void {
  examples(
    program.command('diff'),
    [
      'sluice diff main:rendered rendered',
      'sluice diff origin/main:rendered HEAD:rendered -o markdown > comment.md',
      'sluice diff rendered.old rendered --raw',
      'KUBECTL_EXTERNAL_DIFF=integrations/kubectl-diff kubectl diff -f manifests/',
    ],
    'Exit codes: 0 equivalent, 1 different, 2 one of them cannot be read.',
  )
    .summary('show the changes between two bundles and their effect on traffic')
    .description('Compares two bundles by their effect: Services, endpoints, node ports and traffic changes.')
    .argument('<OLD>', 'a bundle directory, a Git revision of one (REV:PATH), or a directory of manifests')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'with manifests: the SluiceConfig to render them with', notEmpty)
    .option('--base <SNAPSHOT>', 'with manifests: the base of both; may be repeated', collect)
    .addOption(outputOption('markdown', 'html'))
    .option('--raw', 'print a unified diff of the files instead')
    .action(
      run(async (options, old, fresh) => (await import('../commands/diff/diff.ts')).diffCommand(old, fresh, options)),
    );

  examples(program.command('trace'), [
    'sluice trace --node node-a --from 10.244.1.7 --to 10.96.0.10:80/tcp',
    'sluice trace --node node-a --from 10.244.1.7 --to shop/web:80 --layout tree',
    'sluice trace --node node-a --from node --to 192.0.2.11:30080/tcp rendered',
    'sluice trace --node node-a --from 198.51.100.7 --in eth0 --to [2001:db8::9]:443/tcp main:rendered',
  ])
    .summary('trace a packet through the rules of a node')
    .description("Traces the first packet of a connection through a node's rules, to every endpoint that it may reach.")
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .requiredOption('--node <NAME>', 'the node', notEmpty)
    .requiredOption('--from <ADDRESS>', 'the source address; `node` for the node itself', notEmpty)
    .requiredOption(
      '--to <ADDRESS:PORT/PROTO|SERVICE:PORT>',
      'the destination; for a Service (shop/web:80, shop/web:http), its ClusterIP',
      notEmpty,
    )
    .option('--in <INTERFACE>', 'the incoming interface; default: the usual one for such a source', notEmpty)
    .addOption(layout())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/trace/trace.ts')).traceCommand(dir, options)));

  examples(
    program.command('prove'),
    ['sluice prove rendered', 'sluice prove main:rendered -o json', 'sluice prove rendered --alike'],
    'Exit codes: 0 proved, 1 a difference was found, 2 the bundle cannot be read.',
  )
    .summary('check that rules implement their Services')
    .description(
      'Traces packets from every source class to every address and port of every Service, on every kind of node, and checks ' +
        'that they reach the declared endpoints with the declared shares, or are rejected as the policies require. The base rules for ' +
        'established connections, marks and addresses are compared with those of kube-proxy.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--alike',
      'instead, check that both modes are equivalent, except for the documented differences, and that layouts flat and tree are',
    )
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/prove/prove.ts')).proveCommand(dir, options)));

  examples(program.command('explain'), [
    'sluice explain KUBE-SVC-ERIFXISQEP7F7OF4',
    'sluice explain SLU-SVC-ERIFXISQEP7F7OF4.7m                # a chain in the kernel, layout tree',
    `sluice explain -- '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ERIFXISQEP7F7OF4'`,
    'sluice explain shop/web --dir rendered -f manifests/ --blame',
    'sluice explain 10.96.0.10:80',
    'sluice explain SLUICE-T-2RU4R2FUDKAURQV7.67 --node node-a',
    "sluice explain 'TCP  10.96.0.10:80 wrr'",
  ])
    .summary('find the Service of a chain, rule or address')
    .description(
      'Finds the Service and the port of a chain, a set, an address or a line of iptables-save, ipvsadm -Ln or ipset list, with its lines in the bundle, its manifest and the author.',
    )
    .argument(
      '<RULE|CHAIN|SERVICE|ADDRESS>',
      'a line of iptables-save, ipvsadm -Ln or ipset list, the name of a chain or a set, a Service (shop/web), or an address, with or without a port',
    )
    .option('--dir <DIR>', 'a bundle directory, or a Git revision of one', notEmpty, 'rendered')
    .option(
      '--node <NAME>',
      'the node for a chain of layout tree that is not in a file (SLUICE-T-...); default: the first node of each profile',
      notEmpty,
    )
    .option('-f, --manifests <FILE|DIR>', 'manifests to search for the Service', notEmpty)
    .option('--blame', 'show the last commit of its first line, and the author')
    .addOption(outputOption())
    .action(
      run(async (options, rule) => (await import('../commands/explain/explain.ts')).explainCommand(rule, options)),
    );

  examples(
    program.command('cost'),
    ['sluice cost rendered', 'sluice cost rendered -c sluice.yaml -o json'],
    'Exit codes: 0 within the budgets, 1 over a budget, 2 the bundle cannot be read.',
  )
    .summary('estimate the cost of a bundle, and fail over a budget')
    .description('Counts rules, chains, bytes and the longest path of a packet, and estimates load times.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('-c, --config <FILE>', 'the SluiceConfig with `budgets`', notEmpty)
    .addOption(layout())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/cost/cost.ts')).costCommand(dir, options)));
}

import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '@sluice/renderer/commands/options/action.ts';
import { layoutOption } from '@sluice/renderer/commands/options/options.ts';
import { notEmpty } from '@sluice/renderer/commands/options/values.ts';

/** The options and help of the verbs with which operators read a bundle. */

export function addLs(program: Command): void {
  examples(program.command('ls'), [
    'sluice ls',
    "sluice ls rendered -o json | jq -r '.nodes[].version' | sort | uniq -c",
  ])
    .summary('list profiles, nodes and their versions')
    .description('Lists profiles and nodes with their versions. Nodes with the same version have the same rules.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../ls/ls.ts')).lsCommand(dir, options)));
}

export function addShow(program: Command): void {
  examples(program.command('show'), [
    'sluice show --node node-a',
    'sluice show rendered --node node-a --service shop/web',
    'sluice show main:rendered --node node-a',
    'sluice show rendered --node node-a --service shop/web --layout tree      # with the chain names in the kernel',
    'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
    'sluice show rendered --node node-a --tool nft | nft -f -',
    'sluice show rendered --node node-a --tool nft --from before      # the transactions of the release, in mode nftables',
    'sluice show rendered --node node-a --host node-a.json      # a file of `sluiced observe -o node-a.json`',
  ])
    .summary('print the rules of a node in native syntax')
    .description('Prints the resolved rules of one node, in a form that can be loaded by hand.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .requiredOption('--node <NAME>', 'the node', notEmpty)
    .option('--host <FILE>', 'a file of `sluiced observe`: facts about the host', notEmpty)
    .option('--service <NS/NAME>', 'print only the lines of one Service', notEmpty)
    .addOption(
      new Option('--tool <TOOL>', 'print only the text for one tool').choices([
        'ipset',
        'iptables',
        'ip6tables',
        'ipvs',
        'nft',
        'sysctl',
      ]),
    )
    .option(
      '--from <DIR>',
      'with --tool nft: print the transactions that bring the node from this bundle to DIR',
      notEmpty,
    )
    .addOption(layoutOption())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../show/show.ts')).showCommand(dir, options)));
}

export function addExplain(program: Command): void {
  examples(program.command('explain'), [
    'sluice explain KUBE-SVC-ERIFXISQEP7F7OF4',
    'sluice explain SLU-SVC-ERIFXISQEP7F7OF4.7m                # a chain in the kernel, layout tree',
    `sluice explain -- '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ERIFXISQEP7F7OF4'`,
    'sluice explain shop/web --dir rendered -f manifests/ --blame',
    'sluice explain 10.96.0.10:80',
    'sluice explain SLUICE-T-2RU4R2FUDKAURQV7.67 --node node-a',
    "sluice explain 'TCP  10.96.0.10:80 wrr'",
    "sluice explain '10.96.0.10 . tcp . 80 : goto n2'",
  ])
    .summary('find the Service of a chain, rule or address')
    .description(
      'Finds the Service and the port of a chain, a set, an address or a line of iptables-save, ipvsadm -Ln, ipset list or nft list table, with its lines in the bundle, its manifest and the author.',
    )
    .argument(
      '<RULE|CHAIN|SERVICE|ADDRESS>',
      'a line of iptables-save, ipvsadm -Ln, ipset list or nft list table, the name of a chain or a set, a Service (shop/web), or an address, with or without a port',
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
    .action(run(async (options, rule) => (await import('../explain/explain.ts')).explainCommand(rule, options)));
}

export function addCost(program: Command): void {
  examples(
    program.command('cost'),
    ['sluice cost rendered', 'sluice cost rendered -c sluice.yaml -o json'],
    'Exit codes: 0 within the budgets; 1 over a budget; 2 the bundle cannot be read.',
  )
    .summary('estimate the cost of a bundle, and fail over a budget')
    .description('Counts rules, chains, bytes and the longest path of a packet, and estimates load times.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('-c, --config <FILE>', 'the SluiceConfig with `budgets`', notEmpty)
    .addOption(layoutOption())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../cost/cost.ts')).costCommand(dir, options)));
}

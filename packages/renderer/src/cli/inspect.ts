import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { notEmpty, run } from './options.ts';

/** What a bundle holds. */
export function inspectCommands(program: Command): void {
  examples(program.command('show'), [
    'sluice show --node node-a',
    'sluice show rendered --node node-a --service shop/web',
    'sluice show rendered --node node-a --service shop/web --layout tree      # with the names that the kernel has',
    'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
    'sluice show rendered --node node-a --host host.yaml      # a file of `sluiced observe -o host.yaml`',
  ])
    .summary('print what a node loads, in the native syntax of the tool')
    .description('Prints the resolved text of one node, which a person can load by hand.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
    .requiredOption('--node <NAME>', 'the node', notEmpty)
    .option('--host <FILE>', 'what only the node knows, as `sluiced observe` writes it', notEmpty)
    .option('--service <NS/NAME>', 'only the lines of one Service', notEmpty)
    .addOption(
      new Option('--tool <TOOL>', 'only the text for one tool').choices([
        'ipset',
        'iptables',
        'ip6tables',
        'ipvs',
        'sysctl',
      ]),
    )
    .addOption(
      new Option('--layout <LAYOUT>', "how rules are put together: under kube-proxy's names, or as trees under our own")
        .choices(['flat', 'tree'])
        .default('flat'),
    )
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/show.ts')).showCommand(dir, options)));

  examples(program.command('ls'), [
    'sluice ls',
    "sluice ls rendered -o json | jq -r '.nodes[].version' | sort | uniq -c",
  ])
    .summary('list profiles, nodes and the version of each')
    .description('Lists profiles and nodes with the version of each. Nodes with one version have the same rules.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/ls.ts')).lsCommand(dir, options)));
}

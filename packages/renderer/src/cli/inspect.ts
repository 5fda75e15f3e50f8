import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { notEmpty, run } from '../commands/options/options.ts';

/** Adds the commands that print a bundle: `show` and `ls`. */
export function inspectCommands(program: Command): void {
  examples(program.command('show'), [
    'sluice show --node node-a',
    'sluice show rendered --node node-a --service shop/web',
    'sluice show rendered --node node-a --service shop/web --layout tree      # with the chain names in the kernel',
    'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
    'sluice show rendered --node node-a --host host.yaml      # a file of `sluiced observe -o host.yaml`',
  ])
    .summary('print the rules of a node in native syntax')
    .description('Prints the resolved rules of one node, in a form that can be loaded by hand.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
    .requiredOption('--node <NAME>', 'the node', notEmpty)
    .option('--host <FILE>', 'facts about the host, as written by `sluiced observe`', notEmpty)
    .option('--service <NS/NAME>', 'print only the lines of one Service', notEmpty)
    .addOption(
      new Option('--tool <TOOL>', 'print only the text for one tool').choices([
        'ipset',
        'iptables',
        'ip6tables',
        'ipvs',
        'sysctl',
      ]),
    )
    .addOption(
      new Option('--layout <LAYOUT>', "the layout of the rules: flat (kube-proxy's chain names) or tree (Sluice's)")
        .choices(['flat', 'tree'])
        .default('flat'),
    )
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/show/show.ts')).showCommand(dir, options)));

  examples(program.command('ls'), [
    'sluice ls',
    "sluice ls rendered -o json | jq -r '.nodes[].version' | sort | uniq -c",
  ])
    .summary('list profiles, nodes and their versions')
    .description('Lists profiles and nodes with their versions. Nodes with the same version have the same rules.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../commands/ls/ls.ts')).lsCommand(dir, options)));
}

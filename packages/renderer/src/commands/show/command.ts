import { examples, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '../options/action.ts';
import { layoutOption } from '../options/options.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice show`. */
export function addShow(program: Command): void {
  examples(program.command('show'), [
    'sluice show --node node-a',
    'sluice show rendered --node node-a --service shop/web',
    'sluice show rendered --node node-a --service shop/web --layout tree      # with the chain names in the kernel',
    'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
    'sluice show rendered --node node-a --tool nft | nft -f -',
    'sluice show rendered --node node-a --tool nft --from before      # the transactions of the release, in mode nftables',
    'sluice show rendered --node node-a --host node-a.json      # a file of `sluiced observe -o node-a.json`',
  ])
    .summary('print the rules of a node in native syntax')
    .description('Prints the resolved rules of one node, in a form that can be loaded by hand.')
    .argument('[DIR]', 'the bundle directory', 'rendered')
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
    .action(run(async (options, dir) => (await import('./show.ts')).showCommand(dir, options)));
}

import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice explain`. */
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
    .action(run(async (options, rule) => (await import('./explain.ts')).explainCommand(rule, options)));
}

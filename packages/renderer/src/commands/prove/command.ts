import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';

/** Adds `sluice prove`. */
export function addProve(program: Command): void {
  examples(
    program.command('prove'),
    [
      'sluice prove rendered',
      'sluice prove main:rendered -o json',
      'sluice prove rendered -o junit > prove.xml',
      'sluice prove rendered --alike',
    ],
    'Exit codes: 0 proved; 1 a difference was found; 2 the bundle cannot be read.',
  )
    .summary('check that rules implement their Services')
    .description(
      'Traces packets from every source class to every address and port of every Service, on every kind of node, and checks ' +
        'that they reach the declared endpoints with the declared shares, or are rejected as the policies require. The base rules for ' +
        'established connections, marks and addresses are compared with those of kube-proxy. What a bundle does not say enough about, ' +
        'such as node ports of a node without an address, is named as not judged.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--alike',
      'instead, check that modes are equivalent, except for the documented differences, and that layouts flat and tree are',
    )
    .addOption(outputOption('junit'))
    .action(run(async (options, dir) => (await import('./prove.ts')).proveCommand(dir, options)));
}

import { examples, reportOption } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced observe`. */
export function addObserve(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('observe'), reportOption()), [
    'sluiced observe -o host.yaml',
    'ssh node-a sluiced observe -o - > host.yaml && sluice show --node node-a --host host.yaml',
  ])
    .summary('write the facts of this machine for `sluice show --host`')
    .description(
      'Writes the addresses of the machine, its kernel version and everything else that affects how a bundle becomes rules here. Reads the host only, changes nothing, and can run beside the daemon. Exit code 3 unless run as root.',
    )
    .requiredOption('-o, --output <FILE>', 'the file to write; - for standard output')
    .action((options) => finish(async () => (await import('./observe.ts')).observe(options, terminal)));
}

import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced show`. */
export function addShow(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    onNode(program.command('show').argument('<SERVICE>', 'namespace/name')),
    ['sluiced show shop/web', "sluiced show shop/web -o json | jq -r '.rules[].lines[].text'"],
    'Exit codes: 0 the kernel matches the active generation; 1 it differs or the Service does not exist; 2 usage error; 3 not root.',
  )
    .summary("print a Service's rules in the kernel and its files")
    .description(
      "Prints a Service's files in the bundle directory, followed by its chains, rules and virtual servers in the kernel under the kernel's names. Lines only in the kernel begin with +, lines only in the active generation with -, draining real servers with ~.",
    )
    .action((service: string, options) =>
      finish(async () => (await import('./show.ts')).show(service, options, terminal)),
    );
}

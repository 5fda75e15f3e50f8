import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode, signaturesOption } from '../options/options.ts';

/** Adds `sluiced preflight`. */
export function addPreflight(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('preflight').argument('[DIR]', 'the bundle directory (default: from the config)')), [
    'sluiced preflight',
    'sluiced preflight /srv/rules --node node-a --signatures none',
  ])
    .summary('check whether this node can run a bundle')
    .description(
      'Checks tools, kernel modules, sysctls, other owners of rules, address clashes and signatures. Problems are listed first; each line ends with the action to take. Exit code 3 when the node cannot run the bundle.',
    )
    .addOption(signaturesOption())
    .option('-v, --verbose', 'also list the checks that passed')
    .action((dir: string | undefined, options) =>
      finish(async () => (await import('./preflight.ts')).preflight(dir, options, terminal)),
    );
}

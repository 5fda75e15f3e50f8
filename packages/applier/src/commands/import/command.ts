import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced import`. */
export function addImport(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('import').argument('<FILE>', 'an archive that `sluice pack` wrote')), [
    'sluiced import /media/stick/node-a.tar.zst',
    'sluiced import node-a.tar.zst && sluiced apply /etc/sluice/rendered      # on a node without a daemon',
  ])
    .summary('install a release archive into the bundle directory')
    .description(
      'Checks a release archive as the daemon checks releases, and replaces the bundle directory of the config with it atomically.',
    )
    .action((file: string, options) =>
      finish(async () => (await import('./import.ts')).importArchive(file, options, terminal)),
    );
}

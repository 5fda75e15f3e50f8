import { examples, withLog } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced boot`. */
export function addBoot(program: Command, { terminal, finish }: CommandContext): void {
  examples(withLog(onNode(program.command('boot'))), ['sluiced boot -c /etc/sluice/sluiced.yaml'])
    .summary('restore the confirmed rules after a boot')
    .description(
      'Loads the last confirmed generation, or the previous one when that fails. Needs no network. Exit code 4 when an older generation was loaded.',
    )
    .action((options) => finish(async () => (await import('./boot.ts')).boot(options, terminal)));
}

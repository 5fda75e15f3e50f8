import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced cleanup`. */
export function addCleanup(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('cleanup')), [
    'sluiced cleanup',
    'sluiced cleanup --dry-run',
    'sluiced cleanup --yes',
  ])
    .summary('remove all rules of Sluice from the kernel')
    .description(
      'Removes all rules of Sluice from the kernel and restores the sysctls. Foreign rules are not changed. On a terminal it asks first.',
    )
    .option('--dry-run', 'say what would be removed, and remove nothing')
    .option('--yes', 'do not ask for confirmation')
    .action((options) => finish(async () => (await import('./cleanup.ts')).cleanup(options, terminal)));
}

import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced checkpoint`. */
export function addCheckpoint(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('checkpoint').argument('[NAME]', 'the name of a new checkpoint')), [
    'sluiced checkpoint before-1.31        # keeps the active generation',
    'sluiced checkpoint                    # lists them',
    'sluiced checkpoint --remove before-1.31',
  ])
    .summary('keep the active generation under a name')
    .description(
      'Keeps the active generation, with its current endpoints, until the checkpoint is removed. Without a name, lists checkpoints. The last 10 confirmed generations are always kept.',
    )
    .option('--remove <NAME>', 'remove a checkpoint')
    .action((name: string | undefined, options) =>
      finish(async () => (await import('./checkpoint.ts')).checkpoint(name, options, terminal)),
    );
}

import { examples } from '@sluice/cli';
import { type Command, Option } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced rollback`. */
export function addRollback(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    onNode(
      program
        .command('rollback')
        .argument(
          '[TARGET]',
          'a generation, a version or a prefix of one, or a checkpoint (default: the previous generation)',
        ),
    ),
    [
      'sluiced rollback                             # to the previous generation; shows the changes and asks',
      'sluiced rollback 4f1c09ab --yes              # to a version, from a script',
      'sluiced rollback before-1.31 --dry-run       # show what a rollback to a checkpoint would change',
      'sluiced rollback 0 --remove-all-services     # to the rules this node had before Sluice',
    ],
    'Exit codes: 0 rolled back; 1 declined, or --dry-run found a change; 2 input or usage error; 3 refused by the node; 5 node halted.',
  )
    .summary('roll back to an earlier generation')
    .description(
      'Shows what an earlier generation changes, asks for confirmation, rolls back to it with the newest endpoints, and blocks the version it replaces. Goes through the daemon when one is running; a release on probation is cancelled first.',
    )
    .addOption(
      new Option('--endpoints <WHICH>', 'newest: keep the current endpoints; old: restore those of the target').choices(
        ['newest', 'old'],
      ),
    )
    .option('--remove-all-services', 'allow generation 0 as target: the rules this node had before Sluice')
    .option('--dry-run', 'show the changes without making them')
    .option('--yes', 'do not ask for confirmation; required without a terminal')
    .action((to: string | undefined, options) =>
      finish(async () => (await import('./rollback.ts')).rollback(to, options, terminal)),
    );
}

import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode, signaturesOption } from '../options/options.ts';

/** Adds `sluiced apply`. */
export function addApply(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('apply').argument('<DIR>', 'the bundle directory')), [
    'sluiced apply /srv/release',
    'sluiced apply rendered --node node-a --signatures none --dry-run     # exit code 1 when something would change',
    'sluiced apply rendered --node node-a --signatures none',
  ])
    .summary('apply a bundle once')
    .description("Applies the node's part of a bundle once, and rolls back when a probe fails.")
    .option('--dry-run', 'show the changes without making them; exit code 1 when there are any')
    .addOption(signaturesOption())
    .option('--allow-partial', 'accept a bundle that was rendered from incomplete input')
    .option('--ignore-waves', "apply a release before this node's wave is open")
    .option('-v, --verbose', 'print each step')
    .action((dir: string, options) => finish(async () => (await import('./apply.ts')).apply(dir, options, terminal)));
}

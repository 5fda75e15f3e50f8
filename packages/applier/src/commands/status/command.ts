import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced status`. */
export function addStatus(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('status')), ['sluiced status', "sluiced status -o json | jq -r '.version'"])
    .summary('show the active generation and the health of the daemon')
    .description(
      'Shows the confirmed generation, whether the kernel holds it, quarantined versions, and the health of the daemon. Exit code 5 when the node is halted; 1 when the kernel differs, the daemon is unhealthy, an alarm is raised or the generation is partial.',
    )
    .action((options) => finish(async () => (await import('./status.ts')).status(options, terminal)));
}

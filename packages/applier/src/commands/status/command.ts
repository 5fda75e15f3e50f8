import { examples } from '@sluice/cli';
import { type Command, Option } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { durationOption, onNode } from '../options/options.ts';

/** Adds `sluiced status`. */
export function addStatus(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('status')), [
    'sluiced status',
    'sluiced status --watch',
    'sluiced status --wait confirmed --timeout 5m',
    "sluiced status -o json | jq -r '.version'",
  ])
    .summary('show the active generation, what is tried, and what comes next')
    .description(
      'Shows the confirmed generation, whether the kernel holds it, the newest release and its fate, a release on probation with its probes, quarantined versions, the health of the daemon, and what happens next by itself. Exit code 5 when the node is halted; 1 when the kernel differs, the daemon is unhealthy, an alarm is raised, the generation is partial, or the daemon is missing.',
    )
    .option('--watch', 'show it anew every 2 s until Ctrl-C, where the output is a terminal')
    .addOption(
      new Option(
        '--wait <GOAL>',
        'wait until the newest release is confirmed, the daemon is healthy, or no change is in progress; exit code 4 when the release is rolled back, 3 when it is refused, 1 when the time is over',
      ).choices(['confirmed', 'healthy', 'settled']),
    )
    .addOption(durationOption('--timeout <TIME>', 'how long --wait waits at most, such as 90s, 2m or 1h (default: 2m)'))
    .action((options) => finish(async () => (await import('./status.ts')).status(options, terminal)));
}

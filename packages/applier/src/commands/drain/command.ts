import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { durationOption, onNode } from '../options/options.ts';

/** Adds `sluiced drain` and `sluiced undrain`. */
export function addDrain(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('drain')), ['sluiced drain --wait && systemctl reboot', 'sluiced drain --for 10m'])
    .summary('ask load balancers for no new connections')
    .description(
      'Has health-check node ports and the port of kube-proxy for load balancers answer 503, so that these send new connections to other nodes. Rules and established connections stay. `sluiced undrain`, the end of --for or a boot ends it.',
    )
    .addOption(
      durationOption(
        '--for <TIME>',
        'end it after this time, such as 90s, 10m or 1h (default: undrain or a boot ends it)',
      ),
    )
    .option('--wait', 'wait until each client that asked within the last minute was told three times')
    .addOption(durationOption('--timeout <TIME>', 'how long --wait waits at most; then exit code 1 (default: 2m)'))
    .action((options) => finish(async () => (await import('./drain.ts')).drain(options, terminal)));
  examples(onNode(program.command('undrain')), ['sluiced undrain'])
    .summary('let load balancers send to this node again')
    .description('Ends `sluiced drain`: the ports for load balancers answer as the rules and endpoints are.')
    .action((options) => finish(async () => (await import('./drain.ts')).undrain(options, terminal)));
}

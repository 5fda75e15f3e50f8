import { examples, withLog } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced run`. */
export function addRun(program: Command, { finish, runDaemon }: CommandContext): void {
  examples(withLog(onNode(program.command('run'))), [
    'sluiced run',
    'sluiced run -c /etc/sluice/sluiced.yaml --log-format json --log-level warning',
    'systemctl kill --kill-whom=main --signal=SIGUSR1 sluiced     # one log level more; SIGUSR2: one less',
  ])
    .summary('watch a bundle directory and apply complete bundles')
    .description(
      'Watches the bundle directory of the config and applies complete bundles. SIGHUP checks the directory at once, SIGTERM stops the daemon, SIGUSR1 raises the log level by one, SIGUSR2 lowers it.',
    )
    .option('--no-rehearse', 'do not load new rules into a scratch network namespace first; same as `rehearse: off`')
    .action((options) => finish(() => runDaemon(options)));
}

import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';

/** Adds `sluiced rehearse`. */
export function addRehearse(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    program.command('rehearse').requiredOption('--stdin', 'read the request from standard input, and answer there'),
    ['systemctl start sluiced-rehearse.socket        # which runs `sluiced rehearse --stdin` for each connection'],
  )
    .summary('load the rules of one request in a scratch namespace')
    .description(
      'Serves one rehearsal: loads the rules of the request into the current network namespace, which must be isolated. Used by sluiced-rehearse@.service.',
    )
    .addOption(outputOption())
    .action((options) => finish(async () => (await import('./rehearse.ts')).rehearse(options, terminal)));
}

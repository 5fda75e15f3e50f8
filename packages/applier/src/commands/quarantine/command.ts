import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced quarantine`. */
export function addQuarantine(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('quarantine')), [
    'sluiced quarantine                     # lists versions and Services',
    'sluiced quarantine --lift shop/cart    # the daemon tries this Service again',
    'sluiced quarantine --lift 8c1f0a6be1d27a90',
  ])
    .summary('list what is quarantined, and lift a quarantine')
    .description(
      'Lists the versions of bundles, and of Services, that failed and are not tried again automatically. A bundle with a quarantined version of a Service goes in without that Service, which stays as before. With --lift a running daemon tries it again at once; a release on probation ends first.',
    )
    .option('--lift <NAME>', 'a version of a bundle, or a Service as NAMESPACE/NAME, all versions of it')
    .action((options) => finish(async () => (await import('./quarantine.ts')).quarantine(options, terminal)));
}

import { examples, withLog } from '@sluice/cli';
import { type Command, Option } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { durationOption, onNode } from '../options/options.ts';

/** Adds `sluiced fetch`. */
export function addFetch(program: Command, { environment, terminal, finish }: CommandContext): void {
  examples(withLog(onNode(program.command('fetch'))), [
    'sluiced fetch --now',
    'systemctl enable --now sluiced-fetch.service        # which runs `sluiced fetch` as user sluice-fetch',
    'runuser -u sluice-fetch -- sluiced fetch --once',
  ])
    .summary('fetch releases from the source of the config')
    .description(
      'Asks the source of the config at its interval, and places each new release that is signed for this node where the daemon looks for it. Changes no rule, and needs no root. Ends at once where the config has no source.',
    )
    .addOption(new Option('--once', 'fetch once, and print the result').conflicts('now'))
    .option('--now', 'let the running process fetch at once, and print the result; needs root')
    .addOption(durationOption('--timeout <TIME>', 'how long --now waits at most, such as 90s, 2m or 1h (default: 2m)'))
    .action((options) =>
      finish(async () => (await import('../fetch/fetch.ts')).fetchCommand(options, terminal, environment)),
    );
}

import { examples } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import type { Decision } from '../../ports/operator.ts';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';
import type { CommonOptions } from '../terminal/terminal.ts';

/** Adds `sluiced confirm`, `sluiced cancel` and `sluiced extend`: what an operator decides about a release on probation. */
export function addDecisions(program: Command, { terminal, finish }: CommandContext): void {
  const decide = async (decision: Decision, options: CommonOptions): Promise<void> =>
    finish(async () => (await import('./decide.ts')).decide(decision, options, terminal));
  examples(onNode(program.command('confirm')), [
    'sluiced confirm',
    'sluiced confirm --token 5be0c1d2     # only while the release of this token is on probation',
  ])
    .summary('confirm the release on probation')
    .description(
      'Confirms the release on probation without waiting for the remaining time. Failing probes still roll it back. Waits for the outcome, and prints it. `sluiced status` shows its token.',
    )
    .option('--token <TOKEN>', 'refuse if another release is on probation by now')
    .action((options) => decide({ kind: 'confirm' }, options));
  examples(onNode(program.command('cancel')), ['sluiced cancel'])
    .summary('roll back the release on probation')
    .description('Rolls back the release on probation and blocks its version. Waits for the outcome, and prints it.')
    .action((options) => decide({ kind: 'cancel' }, options));
  examples(onNode(program.command('extend').argument('<SECONDS>', 'from now', wholeSeconds)), ['sluiced extend 300'])
    .summary('extend the probation of a release')
    .description('Sets the remaining probation of a release to this many seconds from now, and prints its new end.')
    .action((seconds: number, options) => decide({ kind: 'extend', seconds }, options));
}

function wholeSeconds(text: string): number {
  const seconds = Number(text);
  if (/^\d{1,5}$/.test(text) && seconds > 0 && seconds <= 86_400) return seconds;
  throw new InvalidArgumentError('It must be a whole number of seconds from 1 to 86400.');
}

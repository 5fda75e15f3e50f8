import { examples } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Decision } from '../../ports/operator.ts';
import { type CommandContext, verb } from '../options/context.ts';
import { durationOption, onNode } from '../options/options.ts';
import type { CommonOptions } from '../terminal/terminal.ts';

/** The options and help of the verbs with which operators decide about a release, and take the node out. */

/** Adds `sluiced confirm`, `sluiced cancel` and `sluiced extend`: what an operator decides about a release on probation. */
export function addDecisions(program: Command, { terminal, finish }: CommandContext): void {
  const decide = async (decision: Decision, options: CommonOptions): Promise<void> =>
    finish(async () => (await import('../decide/decide.ts')).decide(decision, options, terminal));
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

/** Adds `sluiced rollback`. */
export function addRollback(program: Command, context: CommandContext): void {
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
    .action(verb(context, async () => (await import('../rollback/rollback.ts')).rollback));
}

/** Adds `sluiced checkpoint`. */
export function addCheckpoint(program: Command, context: CommandContext): void {
  examples(onNode(program.command('checkpoint').argument('[NAME]', 'the name of a new checkpoint')), [
    'sluiced checkpoint before-1.31        # keeps the active generation',
    'sluiced checkpoint                    # lists them',
    'sluiced checkpoint --remove before-1.31',
  ])
    .summary('keep the active generation under a name')
    .description(
      'Keeps the active generation, with its current endpoints, until the checkpoint is removed. Without a name, lists checkpoints. The last 10 confirmed generations are always kept.',
    )
    .option('--remove <NAME>', 'remove a checkpoint')
    .action(verb(context, async () => (await import('../checkpoint/checkpoint.ts')).checkpoint));
}

/** Adds `sluiced quarantine`. */
export function addQuarantine(program: Command, context: CommandContext): void {
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
    .action(verb(context, async () => (await import('../quarantine/quarantine.ts')).quarantine));
}

/** Adds `sluiced drain` and `sluiced undrain`. */
export function addDrain(program: Command, context: CommandContext): void {
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
    .action(verb(context, async () => (await import('../drain/drain.ts')).drain));
  examples(onNode(program.command('undrain')), ['sluiced undrain'])
    .summary('let load balancers send to this node again')
    .description('Ends `sluiced drain`: the ports for load balancers answer as the rules and endpoints are.')
    .action(verb(context, async () => (await import('../drain/drain.ts')).undrain));
}

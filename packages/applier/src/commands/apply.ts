import type { Problem } from '@sluice/bundle';
import type { Config } from '../config.ts';
import { type Arrival, Inbox } from '../inbox/inbox.ts';
import { CommandError, stateError } from '../command-error.ts';
import { controlOf, type Holder } from '../control/serve.ts';
import { ControlSocket } from '../control/socket.ts';
import { accountOf, releaseOf } from '../receipts/account.ts';
import { Repairs } from '../repairs.ts';
import { describe, exitCodes } from '../rollout/outcome.ts';
import { describeStep } from '../rollout/plan.ts';
import type { Report } from '../rollout/ports.ts';
import { type PlannedChange, describeFlip } from '../transaction/transaction.ts';
import { stepsOf } from '../transaction/transaction-plan.ts';
import { gateOf, wavesOf } from './gate.ts';
import { noteRelease } from './note-release.ts';
import { failedReceipt, witnessOf } from './receipts.ts';
import { openSession, type Session } from './session.ts';
import { answer, type CommonOptions, linesOf, loadConfig, tell, tellProblems, type Terminal } from './terminal.ts';

export interface ApplyOptions extends CommonOptions {
  readonly dryRun?: boolean;
  readonly allowPartial?: boolean;
  readonly verbose?: boolean;
  readonly ignoreWaves?: boolean;
}

/** `sluiced apply DIR`: puts one bundle in and ends. A person asked for it, so a version that failed before is tried again. */
export async function apply(directory: string, options: ApplyOptions, terminal: Terminal): Promise<number> {
  const loaded = loadConfig(options);
  const config = { ...loaded, allowPartial: loaded.allowPartial || options.allowPartial === true };
  let isLocked = false;
  const inbox = inboxOf(directory, config, options, () => isLocked);
  // Without the lock: what is not to be taken needs none, and nothing of it is remembered.
  let arrival = await arrivalIn(inbox, directory, options);
  let journal: Session['journal'] | undefined;
  const witness = witnessOf(config, () => journal, failedReceipt(terminal));
  const report: Report = (event, details) => {
    witness.hear(event, details);
    if (event === 'flows-stale')
      terminal.err(`warning: connections to removed endpoints are not forgotten yet: ${String(details['because'])}\n`);
    if (options.verbose) terminal.err(`${event} ${JSON.stringify(details)}\n`);
  };
  const session = await openSession(config, options.dryRun ? 'look' : 'change', report);
  journal = session.journal;
  const control = new ControlSocket(config.state, controlOf(holderOf(session, config)), (why) => {
    if (why !== undefined) terminal.err(`warning: sluiced confirm and cancel do not work: ${why}\n`);
  });
  try {
    if (!options.dryRun) {
      await control.refresh();
      // What was accepted meanwhile counts, and only now is this accepted: a daemon that has the lock must not be shut out by it.
      isLocked = true;
      arrival = await arrivalIn(inbox, directory, options);
    }
    const { tree, release, alarms = [], waits } = arrival;
    tellProblems([...alarms, ...(waits ? [waits.problem] : [])], terminal);
    const onlyEndpoints = release?.onlyEndpoints === true;
    if (options.dryRun) {
      const change = await session.reconciler.preview(tree.files, onlyEndpoints);
      if ('problems' in change) {
        tellProblems(change.problems, terminal);
        return exitCodes.refused;
      }
      return showPlan(change, config, options, terminal);
    }
    const left = await session.reconciler.recover();
    if (left) linesOf(options, terminal)(`first: ${describe(left)}\n`);
    if (left?.kind === 'held') return tell(left, terminal, options);
    await session.reconciler.reconcile();
    const outcome = await session.reconciler.put(tree.files, true, undefined, onlyEndpoints);
    const account = accountOf(outcome);
    noteRelease(account, onlyEndpoints ? null : releaseOf(tree.seal, config.node), session.journal);
    await witness.tell(account, tree.seal, onlyEndpoints);
    return tell(outcome, terminal, options);
  } finally {
    control.close();
    session.close();
  }
}

/** Its release may be confirmed or cancelled; a rollback has to wait for its end. */
function holderOf(session: Session, { state }: Config): Holder {
  const busy = (): never => {
    throw stateError(
      'Cannot do that now: `sluiced apply` is at work',
      '`sluiced cancel` takes the release on probation back; else wait for its end',
      exitCodes.refused,
    );
  };
  return {
    ...session,
    repairs: () => new Repairs(state).read(),
    report: () => null,
    order: busy,
    ended: async () => undefined,
  };
}

/** @param remember whether what is accepted from now on is remembered */
function inboxOf(directory: string, config: Config, { ignoreWaves }: ApplyOptions, remember: () => boolean): Inbox {
  const waves = ignoreWaves ? undefined : wavesOf(config, remember);
  return new Inbox(directory, Date.now, undefined, gateOf(config, remember), waves);
}

/**
 * What is in the directory, when this node may take it now.
 * @throws CommandError otherwise: a verdict of the node has another exit code than a directory that is no bundle
 */
async function arrivalIn(
  inbox: Inbox,
  directory: string,
  { dryRun }: ApplyOptions,
): Promise<Extract<Arrival, { kind: 'bundle' }>> {
  const arrival = await inbox.look();
  if (arrival.kind === 'absent') throw new CommandError([notThere(directory)]);
  if (arrival.kind === 'refused') {
    const isVerdict = arrival.problems.some(({ code }) => /^(RELEASE|SIGNERS|NODE)_|^BUNDLE_UNTRUSTED$/.test(code));
    throw new CommandError(arrival.problems, isVerdict ? exitCodes.refused : exitCodes.problem);
  }
  if (arrival.waits && !dryRun)
    throw new CommandError([{ ...arrival.waits.problem, level: 'error' }], exitCodes.refused);
  return arrival;
}

function notThere(directory: string): Problem {
  const message = `Cannot read ${directory}: it is not there`;
  return { code: 'INPUT_UNREADABLE', level: 'error', message, hint: 'Name a bundle directory' };
}

/** With `-o json` each step has the text that the kernel gets, where it gets one. */
function showPlan(
  { plan }: PlannedChange,
  { node, probation }: Config,
  options: ApplyOptions,
  terminal: Terminal,
): number {
  const steps = stepsOf(plan).map((step) => ({
    kind: step.kind,
    what: describeStep(step),
    text: step.kind === 'restore-table' ? step.text : null,
  }));
  const flip = steps.length === 0 ? null : describeFlip(plan.flip, probation.deadmanSeconds);
  const lines = steps.map(({ what, text }) => `${what}\n${text ?? ''}`);
  const sum = steps.length === 0 ? 'same: nothing to do\n' : `different: ${steps.length} steps\n`;
  answer(options, terminal, {
    kind: 'Plan',
    fields: { node, steps, flip },
    text: [...lines, ...(flip === null ? [] : [`${flip}\n`]), sum].join(''),
  });
  return steps.length === 0 ? exitCodes.done : exitCodes.different;
}

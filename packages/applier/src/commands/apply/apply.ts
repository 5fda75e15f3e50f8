import { plural } from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { Inbox } from '../../inbox/inbox.ts';
import { describe, exitCodes } from '../../ports/outcome.ts';
import { describeStep } from '../../apply/plan/plan.ts';
import type { Report } from '../../ports/ports.ts';
import type { PlannedChange } from '../../apply/transaction/planned-change.ts';
import { describeFlip } from '../../apply/transaction/transaction.ts';
import { stepsOf } from '../../apply/plan/transaction-plan.ts';
import { makeReleaseGate, mustBeBundle, makeWaveGate, withLive } from '../session/gate.ts';
import { failedReceipt, makeReceiptWriter, reportEnding } from '../session/receipts.ts';
import { commandControl } from '../session/control.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import {
  answer,
  type CommonOptions,
  linesOf,
  loadConfig,
  printOutcome,
  printProblems,
  type Terminal,
} from '../terminal/terminal.ts';

interface ApplyOptions extends CommonOptions {
  readonly dryRun?: boolean;
  readonly allowPartial?: boolean;
  readonly verbose?: boolean;
  readonly ignoreWaves?: boolean;
}

/** `sluiced apply DIR`: applies one bundle and exits. An operator asked for it, so a quarantined version is tried again. */
export async function apply(directory: string, options: ApplyOptions, terminal: Terminal): Promise<number> {
  const loaded = loadConfig(options);
  const config = { ...loaded, allowPartial: loaded.allowPartial || options.allowPartial === true };
  let isLocked = false;
  const inbox = openInbox(directory, config, options, () => isLocked);
  // Before the lock is taken: a refusal needs no lock, and nothing is remembered yet.
  const look = async (from: Pick<Inbox, 'look'>) =>
    mustBeBundle(await from.look(), directory, exitCodes.problem, options.dryRun);
  let arrival = await look(inbox);
  let journal: NodeSession['journal'] | undefined;
  const receiptWriter = makeReceiptWriter(config, () => journal, failedReceipt(terminal));
  const report: Report = (event, details) => {
    receiptWriter.onEvent(event, details);
    if (event === 'flows-stale')
      terminal.err(`warning: connections to removed endpoints are not forgotten yet: ${String(details['because'])}\n`);
    if (event === 'ipvs-left') linesOf(options, terminal)(`${String(details['what'])}\n`);
    if (options.verbose) terminal.err(`${event} ${JSON.stringify(details)}\n`);
  };
  using session = await openSession(config, options.dryRun ? 'look' : 'change', report);
  journal = session.journal;
  using control = commandControl('apply', session, config, terminal);
  if (!options.dryRun) {
    await control.refresh();
    // Releases accepted in the meantime count. Only now is this one accepted: a daemon that holds the lock must not be shut out by it.
    isLocked = true;
  }
  if (!options.dryRun || config.endpoints.live) arrival = await look(withLive(inbox, config, session));
  const { tree, release, alarms = [], waits, live, note } = arrival;
  printProblems([...alarms, ...(waits ? [waits.problem] : [])], terminal);
  if (note !== undefined) terminal.err(`warning: ${note}\n`);
  const onlyEndpoints = release?.onlyEndpoints === true;
  if (options.dryRun) {
    const change = await session.reconciler.preview(tree.files, onlyEndpoints);
    if ('problems' in change) {
      printProblems(change.problems, terminal);
      return exitCodes.refused;
    }
    return showPlan(change, config, options, terminal);
  }
  const left = await session.reconciler.recover();
  if (left) linesOf(options, terminal)(`first: ${describe(left)}\n`);
  if (left?.kind === 'held' || left?.kind === 'pending') return printOutcome(left, terminal, options);
  await session.reconciler.repair();
  const outcome = await session.reconciler.put(
    tree.files,
    true,
    undefined,
    onlyEndpoints,
    live && { version: live.version },
  );
  await reportEnding(outcome, tree.seal, onlyEndpoints, { config, journal: session.journal, writer: receiptWriter });
  return printOutcome(outcome, terminal, options);
}

/** @param remember whether releases accepted from now on are remembered */
function openInbox(
  directory: string,
  config: SluicedConfig,
  { ignoreWaves }: ApplyOptions,
  remember: () => boolean,
): Inbox {
  const waves = ignoreWaves ? undefined : makeWaveGate(config, remember);
  return new Inbox(directory, Date.now, undefined, makeReleaseGate(config, remember), waves);
}

/** Prints the plan. With `-o json` each step that has a text for the kernel includes it. */
function showPlan(
  { plan }: PlannedChange,
  { node, probation }: SluicedConfig,
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
  const sum = steps.length === 0 ? 'same: nothing to do\n' : `different: ${plural(steps.length, 'step')}\n`;
  answer(options, terminal, {
    kind: 'Plan',
    fields: { node, steps, flip },
    text: [...lines, ...(flip === null ? [] : [`${flip}\n`]), sum].join(''),
  });
  return steps.length === 0 ? exitCodes.done : exitCodes.different;
}

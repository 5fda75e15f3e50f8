import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { BundleFiles } from '@sluice/bundle';
import { plural, type Problem, refusal } from '@sluice/netfilter';
import { adopt, type AdoptEnding, type AdoptionDependencies, type Putter } from '../../move/adoption/adopt.ts';
import { undo, type UndoEnding } from '../../move/adoption/undo.ts';
import { CommandError, commandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { mustBeKnown, mustBeReadable } from '../../daemon/control/roll-back.ts';
import { type Arrival, type ArrivedBundle, Inbox } from '../../inbox/inbox.ts';
import { describeWindow } from '../../ports/ipvs/window.ts';
import { removeProxyTables } from '../../kernel/nft/proxy-tables.ts';
import { runChildren } from '../../kernel/run.ts';
import { detectTools, otherBackend, chooseStore, readStoreUse } from '../../kernel/tools.ts';
import { kubeProxyOf } from '../../move/kube-proxy/kube-proxy.ts';
import { rulesElsewhere } from '../../move/kube-proxy/rules.ts';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Adoption, Hold, KubeProxy } from '../../ports/adoption.ts';
import { familyNames } from '../../ports/node-state.ts';
import { describe, exitCodes, type Outcome, rateOutcome } from '../../ports/outcome.ts';
import type { SaidByRelease } from '../../apply/reconcile/parts.ts';
import type { Reconciler } from '../../apply/reconcile/reconciler.ts';
import { findings } from '../../diagnose/preflight/preflight.ts';
import { pinnedStore } from '../../state/peek.ts';
import { commandControl } from '../session/control.ts';
import { makeReleaseGate, mustBeBundle, makeWaveGate, withLive } from '../session/gate.ts';
import { failedReceipt, makeReceiptWriter, reportEnding } from '../session/receipts.ts';
import { type NodeSession, openSession } from '../session/session.ts';
import { answer, type CommonOptions, linesOf, loadConfig, printProblems, type Terminal } from '../terminal/terminal.ts';
import { gateFor, type ParityOptions } from './gate.ts';

/**
 * Checks that kube-proxy can be stopped in this way, before anything is touched. A move that has begun in another way is not continued: the
 * journal has one hold, and what it forgot could not be given back.
 * @param begun the move that was interrupted
 * @throws CommandError
 */
export async function mustBeHoldable(
  hold: Hold,
  begun: Adoption | undefined,
  kubeProxy: Pick<KubeProxy, 'refuses'>,
): Promise<void> {
  if (begun && begun.hold.kind !== 'operator' && !isDeepStrictEqual(begun.hold, hold))
    throw cannot(
      `Cannot continue the move of this node: it began with ${optionOf(begun.hold)}`,
      'Run the command with that option again, or `sluiced adopt --undo` first',
    );
  const why = await kubeProxy.refuses(hold);
  if (why === undefined) return;
  throw cannot(
    `Cannot move this node from kube-proxy: ${why}`,
    'Nothing was touched. Pass what runs kube-proxy here; /usr/share/doc/sluice/adopt.md says which',
  );
}

function optionOf(hold: Hold): string {
  if (hold.kind === 'unit') return `--unit ${hold.unit}`;
  return hold.kind === 'manifest' ? `--manifest ${hold.manifest}` : '--daemonset';
}

/** A kube-proxy whose failures say who serves, and what to do. */
export const explained = (kubeProxy: KubeProxy): KubeProxy => ({
  ...kubeProxy,
  hold: (hold) => explain(kubeProxy.hold(hold), 'Cannot stop kube-proxy', 'or `sluiced adopt --undo`'),
  release: (hold) => explain(kubeProxy.release(hold), 'Cannot let kube-proxy return', 'to finish the undo'),
});

async function explain<T>(done: Promise<T>, what: string, orElse: string): Promise<T> {
  try {
    return await done;
  } catch (error) {
    const hint = `Sluice serves. Mend what it says, then run the same command again, ${orElse}`;
    throw cannot(`${what}: ${messageOf(error)}`, hint, exitCodes.different);
  }
}

const cannot = (message: string, hint: string, exitCode: number = exitCodes.refused): CommandError =>
  commandError('NODE_CANNOT_ADOPT', message, hint, exitCode);

/**
 * The bundle that the node is to run, with its seal.
 * @param remember whether its release is accepted: only under the lock of the state directory
 * @param waitMs how long a writer, such as `sluice watch`, may take to complete what it has begun
 * @param session reads live endpoints; without it they are left out
 * @throws CommandError also where the wave of this node is not open: that orders the moves of a fleet
 */
export async function bundleFor(
  config: SluicedConfig,
  remember: boolean,
  waitMs: number = limits.writerAtWorkMs,
  session?: NodeSession,
): Promise<ArrivedBundle> {
  const gates = [makeReleaseGate(config, () => remember), makeWaveGate(config, () => remember)] as const;
  const released = new Inbox(config.bundle, Date.now, undefined, ...gates);
  const inbox = session ? withLive(released, config, session) : released;
  let arrival = await inbox.look();
  for (const endMs = performance.now() + waitMs; isIncomplete(arrival) && performance.now() < endMs; ) {
    await sleep(limits.eventSettleMs);
    arrival = await inbox.look();
  }
  return mustBeBundle(arrival, config.bundle, exitCodes.refused);
}

const isIncomplete = (arrival: Arrival): boolean =>
  arrival.kind === 'refused' && arrival.problems.every(({ code }) => code === 'BUNDLE_INCOMPLETE');

/**
 * Checks everything that a move needs, and changes nothing. That a kube-proxy runs, and that its rules stand, is what a move begins with.
 * @throws CommandError
 */
async function mustBeReady(config: SluicedConfig, files: BundleFiles, terminal: Terminal): Promise<void> {
  const bad = (await findings(config, files, [])).filter(({ level, what }) => level === 'bad' && !isOfKubeProxy(what));
  if (bad.length > 0) {
    for (const { what, todo } of bad) terminal.err(`${what}: ${todo}\n`);
    throw cannot(
      `Cannot move this node from kube-proxy: ${plural(bad.length, 'check')} of \`sluiced preflight\` failed`,
      'Nothing was touched. Do what they say, then run the same command again',
    );
  }
  const elsewhere = await otherStore(config);
  if (elsewhere) throw elsewhere;
}

const isOfKubeProxy = (what: string): boolean => /^(?:kube-proxy|chains of another owner)\b/.test(what);

/**
 * The rules of kube-proxy must be in the store that Sluice writes to: in mode iptables, of two stores the kernel asks the one that was loaded
 * last; and what is in the other store could not be removed.
 */
async function otherStore(config: SluicedConfig): Promise<CommandError | undefined> {
  const run = runChildren();
  const { backend } = await detectTools(chooseStore(config.backend, pinnedStore(config.state)), run);
  const other = otherBackend(backend);
  if (!(await readStoreUse(other, run)).hasKubeProxy) return undefined;
  return cannot(
    `Cannot put the bundle in front of this kube-proxy: its rules are in the ${other} store, and Sluice's would be in ${backend}`,
    `Set \`backend: ${other}\` in sluiced.yaml; after the move, \`sluiced backend ${backend}\` moves the rules`,
  );
}

interface AdoptOptions extends CommonOptions, ParityOptions {
  readonly unit?: string;
  readonly manifest?: string;
  readonly daemonset?: boolean;
  readonly undo?: boolean;
  /** Seconds. */
  readonly wait: number;
  readonly allowPartial?: boolean;
}

/** `sluiced adopt`: moves this node from kube-proxy to Sluice, or back. */
export async function adoptCommand(
  directory: string | undefined,
  options: AdoptOptions,
  terminal: Terminal,
): Promise<number> {
  const loaded = loadConfig(options);
  const bundle = directory ?? loaded.bundle;
  const allowPartial = loaded.allowPartial || options.allowPartial === true;
  // The command itself decides what is taken over, and when.
  const config: SluicedConfig = { ...loaded, bundle, allowPartial, takeOver: [] };
  return options.undo === true ? undoCommand(config, options, terminal) : moveCommand(config, options, terminal);
}

async function moveCommand(config: SluicedConfig, options: AdoptOptions, terminal: Terminal): Promise<number> {
  const hold = readHold(options);
  await mustBeReady(config, (await bundleFor(config, false)).tree.files, terminal);
  let journal: NodeSession['journal'] | undefined;
  const receipts = makeReceiptWriter(config, () => journal, failedReceipt(terminal));
  using session = await openSession(config, 'change', (event, details) => receipts.onEvent(event, details));
  journal = session.journal;
  using control = commandControl('adopt', session, config, terminal);
  await control.refresh();
  const left = await session.reconciler.recover();
  if (left?.kind === 'held' || left?.kind === 'pending')
    throw new CommandError([unmovable(left)], rateOutcome(left).exitCode);
  const parts = await partsOf(config, session, options, terminal);
  await mustBeHoldable(hold, session.journal.adoption, parts.kubeProxy);
  const { kernel } = await session.portsOf(session.backend);
  const gate = await gateFor(config, options, { backend: session.backend, knowsBpf: kernel.knowsBpf });
  const { tree, live } = await bundleFor(config, true, limits.writerAtWorkMs, session);
  const { files, seal } = tree;
  const reportOutcome = (outcome: Outcome): Promise<void> =>
    reportEnding(outcome, seal, false, { config, journal: session.journal, writer: receipts });
  const front = session.reconcilerWith({ takeOver: false, beneath: true, takeOrder: true }, gate);
  const instead = session.reconcilerWith({ takeOver: true }, gate);
  const said = live && { version: live.version };
  return printEnding(
    await adopt(
      files,
      hold,
      { front: reported(front, reportOutcome, said), instead: reported(instead, reportOutcome, said) },
      parts,
    ),
    hold,
    options,
    terminal,
  );
}

/** A putter whose outcomes are told, as those of `sluiced apply` are. */
const reported = (
  putter: Pick<Reconciler, keyof Putter>,
  report: (outcome: Outcome) => Promise<void>,
  said?: SaidByRelease,
): Putter => ({
  async put(files, byHand) {
    const outcome = await putter.put(files, byHand, undefined, false, said);
    await report(outcome);
    return outcome;
  },
  repair: () => putter.repair(),
  reconcileFlows: () => putter.reconcileFlows(),
});

async function undoCommand(config: SluicedConfig, options: AdoptOptions, terminal: Terminal): Promise<number> {
  using session = await openSession(config, 'back', () => undefined);
  await mustBeKnown(session);
  await session.reconciler.recover();
  mustBeReadable(session);
  const { journal, reconciler } = session;
  const parts = {
    ...(await partsOf(config, session, options, terminal)),
    journal,
    cleanUp: () => reconciler.cleanup(true),
    rollBackTo: (target: Parameters<typeof reconciler.rollBackTo>[0]) => reconciler.rollBackTo(target),
  };
  const ending = await undo(parts);
  const receipts = makeReceiptWriter(config, () => session.journal, failedReceipt(terminal));
  const because = 'an operator ran `sluiced adopt --undo`';
  if (!journal.active) await receipts.report({ outcome: 'removed', because }, undefined);
  return printUndone(ending, config, options, terminal);
}

async function partsOf(
  config: SluicedConfig,
  session: NodeSession,
  options: AdoptOptions,
  terminal: Terminal,
): Promise<AdoptionDependencies> {
  const { journal, backend } = session;
  const run = runChildren();
  const { kernel, clock } = await session.portsOf(backend);
  const tools = await detectTools(backend, run);
  const print = linesOf(options, terminal);
  return {
    journal,
    kernel,
    clock,
    kubeProxy: explained(kubeProxyOf(run)),
    families: familyNames.filter((family) => tools.families[family] !== undefined),
    removeTables: () => removeProxyTables(run),
    rulesElsewhere: () => rulesElsewhere(backend, run),
    say: (what) => print(`${config.node}: ${what}\n`),
    waitMs: options.wait * 1000,
  };
}

function readHold({ unit, manifest, daemonset }: AdoptOptions): Hold {
  if (unit !== undefined) return { kind: 'unit', unit };
  if (manifest !== undefined) return { kind: 'manifest', manifest };
  if (daemonset === true) return { kind: 'operator' };
  const message = 'Cannot move this node from kube-proxy: it is not known how to stop it';
  const hint = 'Pass --unit UNIT, --manifest FILE or --daemonset; /usr/share/doc/sluice/adopt.md says which';
  throw commandError('USAGE_INVALID', message, hint);
}

function unmovable(left: Extract<Outcome, { kind: 'held' | 'pending' }>): Problem {
  const [why, hint] =
    left.kind === 'held'
      ? ['it is halted', 'Follow /usr/share/doc/sluice/runbooks/halted.md first']
      : [
          'an earlier change could not be ended yet',
          'Give the node the tool or the resource that is missing, and try again',
        ];
  const because = left.kind === 'held' ? left.because : `${left.because} (${left.rollback})`;
  return refusal('NODE_HELD', `Cannot move this node: ${why}: ${because}`, hint);
}

/** Prints how a move ended. @returns the exit code */
function printEnding(ending: AdoptEnding, hold: Hold, options: AdoptOptions, terminal: Terminal): number {
  if ('outcome' in ending && ending.outcome.kind === 'refused')
    printProblems(ending.outcome.refusal.problems, terminal);
  const outcome = 'outcome' in ending ? ending.outcome.kind : null;
  const running = ending.kind === 'beneath' ? ending.running : [];
  const ipvs = (ending.kind === 'adopted' && ending.ipvs) || null;
  answer(options, terminal, {
    kind: 'Adoption',
    fields: { result: ending.kind, outcome, running, ipvs },
    text: `${textOf(ending, hold)}\n`,
  });
  if (ending.kind === 'adopted') return exitCodes.done;
  return ending.kind === 'not-confirmed' ? rateOutcome(ending.outcome).exitCode : exitCodes.different;
}

function textOf(ending: AdoptEnding, hold: Hold): string {
  switch (ending.kind) {
    case 'adopted':
      return `adopted: Sluice serves alone, kube-proxy is stopped, and its rules are generation 0. Start sluiced.service; \`sluiced adopt --undo\` moves the node back${ending.ipvs ? `\n${describeWindow(ending.ipvs)}` : ''}`;
    case 'not-confirmed':
      return `kube-proxy runs as before: ${describe(ending.outcome)}`;
    case 'not-removed':
      return `Sluice serves; kube-proxy is stopped, and its rules are still beneath: ${describe(ending.outcome)}. Run the same command again, or --undo`;
    case 'beneath': {
      const todo =
        hold.kind === 'operator'
          ? 'Stop it: label the node, so that its DaemonSet leaves it, or restart k3s or RKE2 without it'
          : 'Find out why it did not stop';
      return `Sluice serves in front of kube-proxy, which still runs (${ending.running.join(', ')}). ${todo}; then run the same command again, or --undo`;
    }
  }
}

function printUndone(ending: UndoEnding, { node }: SluicedConfig, options: AdoptOptions, terminal: Terminal): number {
  answer(options, terminal, {
    kind: 'AdoptionUndone',
    fields: { node, result: ending.kind },
    text: `${undoneText(ending)}\n`,
  });
  if (ending.kind === 'old-rules' && ending.outcome.kind === 'held') return exitCodes.halted;
  return ending.kind === 'undone' ? exitCodes.done : exitCodes.different;
}

function undoneText(ending: UndoEnding): string {
  switch (ending.kind) {
    case 'undone':
      return `undone: kube-proxy serves, and Sluice's rules are removed (${ending.steps} steps)`;
    case 'old-rules':
      return ending.outcome.kind === 'held' || ending.outcome.kind === 'pending'
        ? describe(ending.outcome)
        : 'kube-proxy did not write its rules in time; those of generation 0 serve, with the endpoints of that time. Find out why kube-proxy does not run';
    case 'waits':
      return 'Sluice serves on: kube-proxy may return, and has not written its rules. Start it, then run the same command again';
  }
}

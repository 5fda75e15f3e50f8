import type { Tree } from '../inbox/files.ts';
import type { Arrival, ArrivedBundle } from '../inbox/inbox.ts';
import type { WaitingRelease } from '../inbox/wave-gate.ts';
import { limits, paces, pauseAfter, pauseBeforeRetry, retries } from '../limits.ts';
import { messageOf } from '../message.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { SaidByRelease } from '../apply/reconcile/parts.ts';
import type { Offers } from '../apply/transaction/offers.ts';
import type { EarlyEndpointsWatch } from './early-endpoints-watch.ts';
import type { GoingOn } from './going-on.ts';
import { Lateness } from './lateness.ts';
import type { Looks } from './looks.ts';
import type { DaemonDependencies } from './dependencies.ts';
import type { Reports } from './reports.ts';
import type { Wakes } from './wakes.ts';

/** Refusals that come from a rehearsal, or from probes before a release, and may differ at the next one. */
const codes: ReadonlySet<string> = new Set(['NODE_CANNOT_REHEARSE', 'NODE_REFUSES_RULES', 'NODE_RULES_UNSTEADY']);

/**
 * Delays the retry of a bundle that failed its rehearsal. A rehearsal starts many tools, and in layout `flat` loads the whole program: one per scan would
 * keep a node busy all the time. Other refusals are retried at once.
 */
class RehearsalBackOff {
  readonly #monotonicMs: () => number;
  #last:
    | { readonly tree: Tree; readonly machine: string; readonly outcome: Outcome; readonly untilMs: number }
    | undefined;

  /** How often in a row a rehearsal could not run. */
  #unable = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Takes the outcome of applying or rehearsing a tree. @param sinceMs when that began */
  ended(tree: Tree, machine: string, outcome: Outcome | undefined, sinceMs: number): void {
    const problems = outcome?.kind === 'refused' ? outcome.refusal.problems : [];
    if (!outcome || !problems.some(({ code }) => codes.has(code))) return this.forget();
    const nowMs = this.#monotonicMs();
    const isUnable = problems.some(({ code }) => code === 'NODE_CANNOT_REHEARSE');
    // A tool that hung for a minute has used nothing: its release must not wait for as long as one that loaded rules for a minute.
    const mostMs = isUnable ? pauseBeforeRetry(this.#unable, retries.rehearsal) : Infinity;
    this.#unable = isUnable ? this.#unable + 1 : 0;
    const pauseMs = Math.min(pauseAfter(nowMs - sinceMs, paces.rehearsal), mostMs);
    this.#last = { tree, machine, outcome, untilMs: nowMs + pauseMs };
  }

  /** @returns the last outcome of the tree during its back-off, otherwise undefined */
  of(tree: Tree, machine: string): Outcome | undefined {
    const last = this.#last;
    const isIt = last?.tree === tree && last.machine === machine && this.#monotonicMs() < last.untilMs;
    return isIt ? last.outcome : undefined;
  }

  /** An operator asks for a retry now. */
  forget(): void {
    this.#last = undefined;
    this.#unable = 0;
  }
}

/** What the loop lends to its bundles. */
interface BundlesDependencies {
  readonly daemon: DaemonDependencies;
  readonly looks: Looks;
  readonly reports: Reports;
  readonly wakes: Wakes;
  readonly early: EarlyEndpointsWatch;
  readonly goingOn: GoingOn;
  /** A change of a bundle begins. */
  readonly begins: () => void;
  /** Whether a probation in progress must end: a stop, or an operator's order. */
  readonly isEnding: () => boolean;
}

/** Brings the newest bundle of the directory into the kernel. */
export class Bundles {
  readonly #parts: BundlesDependencies;
  readonly #backOff: RehearsalBackOff;
  /** The tree and machine facts that the kernel holds: nothing to do while both are unchanged. */
  #done: { readonly tree: Tree; readonly machine: string } | undefined;
  /** The tree that was rehearsed last while its wave was closed. */
  #rehearsed: Tree | undefined;
  /** The tree whose endpoints a halted node has taken. */
  #offered: Tree | undefined;
  readonly #lateness: Lateness;
  /** When the directory is looked at again: the last endpoint of a Service is removed late, or a writer is at work. */
  againMs = Infinity;
  /** Since when each look found a writer at work. */
  #fillingSinceMs: number | undefined;
  /** A writer is putting a bundle into the directory, which is read as it grows; false once that takes too long. */
  isFilling = false;
  /** A bundle is being applied. */
  isChanging = false;

  constructor(parts: BundlesDependencies) {
    this.#parts = parts;
    this.#backOff = new RehearsalBackOff(parts.daemon.monotonicMs);
    this.#lateness = new Lateness(parts.daemon);
  }

  /** After an order the directory is read as if for the first time: it may hold the release that was rolled back. */
  forget(): void {
    this.#done = undefined;
    this.#parts.looks.readWhole();
  }

  /** An operator asks for a look: everything is read and tried again. */
  retry(): void {
    this.#parts.looks.readWhole();
    this.#backOff.forget();
  }

  /** Looks into the directory, and applies what it holds. */
  async look(): Promise<void> {
    const beganMs = this.#parts.daemon.monotonicMs();
    const arrival = await this.#parts.looks.look();
    await this.#take(arrival, beganMs);
    this.#lateness.live(arrival.unreadLive);
    this.#parts.daemon.status.looked(beganMs);
  }

  async #take(arrival: Arrival, startMs: number): Promise<void> {
    const { reports } = this.#parts;
    const { status, journal } = this.#parts.daemon;
    this.againMs = await this.#parts.goingOn.look(arrival, (work) => this.changing(work));
    this.#readAhead(arrival, startMs);
    if (arrival.kind === 'absent') {
      reports.about(undefined);
      return status.raise('BUNDLE_ABSENT', 'the bundle directory does not exist; the rules stay as they are');
    }
    status.clear('BUNDLE_ABSENT');
    if (arrival.kind === 'refused') {
      status.pending(true);
      this.#lateness.unread(arrival.problems[0], startMs);
      return reports.refused(arrival.problems);
    }
    reports.about(arrival.tree.digest);
    this.#sees(arrival);
    status.accepted(arrival.release, arrival.alarms ?? []);
    if (!arrival.waits) status.waits(undefined);
    if (journal.halted === undefined) await this.#apply(arrival);
    else if (!arrival.waits) await this.#offerEndpoints(arrival);
  }

  /** What it says of the node itself counts at once. An endpoint update brings its endpoints alone, and a release whose wave is closed nothing. */
  #sees(bundle: ArrivedBundle): void {
    if (!bundle.waits && !isOnlyEndpoints(bundle)) this.#parts.daemon.seen?.(bundle.tree.files);
  }

  /** A halted node takes no release, but the endpoints of one, once for each tree. */
  async #offerEndpoints(bundle: ArrivedBundle): Promise<void> {
    const { daemon, reports } = this.#parts;
    const { tree } = bundle;
    if (tree === this.#offered) return;
    try {
      const ending = await this.changing(async () =>
        daemon.reconciler.offerEndpoints?.(tree.files, isOnlyEndpoints(bundle)),
      );
      this.#offered = tree;
      if (daemon.journal.halted !== undefined || !ending) return;
      reports.outcome(ending);
      await reports.ended(ending);
    } catch (error) {
      daemon.log.error({ because: messageOf(error) }, 'cannot take the newest endpoints into the rollback; retrying');
    }
  }

  /** A growing directory is looked at again soon: half of the time is left to its writer. @param startMs of the look */
  #readAhead(arrival: Arrival, startMs: number): void {
    const isFilling = arrival.kind === 'refused' && arrival.isFilling === true;
    this.#fillingSinceMs = isFilling ? (this.#fillingSinceMs ?? startMs) : undefined;
    this.isFilling = startMs - (this.#fillingSinceMs ?? -Infinity) < limits.readAheadMsMax;
    const nowMs = this.#parts.daemon.monotonicMs();
    if (this.isFilling) this.againMs = nowMs + pauseAfter(nowMs - startMs, paces.readAhead);
  }

  async #apply(bundle: ArrivedBundle): Promise<void> {
    const { daemon, reports, early } = this.#parts;
    const { tree, waits } = bundle;
    const released = bundle.live?.released ?? tree;
    const machine = daemon.machine();
    const isIn = tree === this.#done?.tree && machine === this.#done.machine;
    daemon.status.pending(!isIn);
    if (isIn) this.#lateness.isIn(tree.files);
    if (isIn) return reports.unchanged(daemon.journal.active, tree, isOnlyEndpoints(bundle));
    const paused = this.#backOff.of(tree, machine);
    if (paused) {
      reports.outcome(paused, early.is);
      return this.#lateness.judge(tree.files, paused, daemon.monotonicMs());
    }
    if (waits && (await this.#waits(released, machine, waits))) return;
    const startMs = daemon.monotonicMs();
    daemon.status.pending(true, true);
    const outcome = await this.changing(() => this.#put(bundle));
    // Other refusals are retried: a running kube-proxy ends, a busy kernel becomes free. The journal knows bad versions.
    this.#backOff.ended(tree, machine, outcome, startMs);
    this.#lateness.judge(tree.files, outcome, startMs);
    const isTaken = outcome?.kind === 'same' || outcome?.kind === 'confirmed';
    const waitsMs = isTaken ? outcome.waitsMs : undefined;
    if (waitsMs !== undefined) this.againMs = daemon.monotonicMs() + waitsMs;
    this.#done = isTaken && waitsMs === undefined ? { tree, machine } : undefined;
    daemon.status.pending(this.#done === undefined);
    daemon.leaves?.(isTaken ? (outcome.leaving ?? []) : []);
    if (!isTaken) return;
    await daemon.taken?.(tree.files);
    early.isIn(tree.files);
  }

  /**
   * Rehearses a release whose wave is closed, until that succeeds once, so that problems show before the wave opens.
   * @returns false when the release does not change the rules of this node: then there is nothing to wait for
   */
  async #waits(tree: Tree, machine: string, waiting: WaitingRelease): Promise<boolean> {
    const { daemon, reports, early } = this.#parts;
    const { reconciler, status, log } = daemon;
    if (tree === this.#rehearsed) return this.#onlyWaits();
    const startMs = daemon.monotonicMs();
    try {
      const opinion = await reconciler.rehearse(tree.files);
      status.waits(opinion === 'same' ? undefined : waiting);
      if (opinion === 'same') return false;
      if (opinion !== 'ready') {
        const refused: Outcome = { kind: 'refused', refusal: opinion };
        this.#backOff.ended(tree, machine, refused, startMs);
        reports.outcome(refused, early.is);
        await reports.ended(refused, tree);
        return true;
      }
      this.#rehearsed = tree;
      reports.once('info', { wave: waiting.wave, name: waiting.name }, waiting.problem.message);
      return await this.#onlyWaits();
    } catch (error) {
      status.waits(waiting);
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot rehearse the waiting release; retrying');
    }
    return true;
  }

  /** The release can be applied when its wave opens: earlier problems of it or of the directory are over. */
  async #onlyWaits(): Promise<true> {
    this.#parts.daemon.status.clearBundle();
    await this.#parts.daemon.waits?.();
    return true;
  }

  async #put(bundle: ArrivedBundle): Promise<Outcome | undefined> {
    const { daemon, reports, early } = this.#parts;
    const { reconciler, journal, status, log, drift, monotonicMs } = daemon;
    const { tree } = bundle;
    const startMs = monotonicMs();
    const before = journal.active;
    try {
      const outcome = await this.#withOffers(tree, (offers) =>
        reconciler.put(tree.files, false, offers, isOnlyEndpoints(bundle), saidBy(bundle, before?.version)),
      );
      if (outcome.kind === 'confirmed' || outcome.kind === 'rolled-back') drift?.saw();
      status.ended(outcome, (monotonicMs() - startMs) / 1000);
      status.activate(journal.active);
      reports.outcome(outcome, early.is);
      // Of a release that was in before, only its live endpoints are news.
      const isKnown = before?.version === bundle.live?.version && before?.number === journal.active?.number;
      const isLive = bundle.live !== undefined && isKnown;
      if (!('waitsMs' in outcome) && !(isLive && outcome.kind === 'refused'))
        await reports.ended(outcome, tree, isOnlyEndpoints(bundle) || isLive);
      return outcome;
    } catch (error) {
      drift?.doubted();
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot apply the bundle; retrying');
      return undefined;
    }
  }

  /** Runs work that writes the kernel: what it reports is no drift. */
  async changing<T>(work: () => Promise<T>): Promise<T> {
    this.isChanging = true;
    try {
      return await work();
    } finally {
      this.isChanging = false;
      this.#parts.daemon.drift?.wrote();
    }
  }

  /** Offers newer trees to a change in progress: after events of the directory, and once per scan interval. */
  async #withOffers<T>(first: Tree, work: (offers: Offers) => Promise<T>): Promise<T> {
    const { daemon, wakes, early, begins, isEnding } = this.#parts;
    let last = first;
    early.begin(first.files);
    begins();
    wakes.listen();
    const timer = setInterval(() => wakes.arrive(), daemon.scanIntervalMs);
    const look: Offers['look'] = async () => {
      wakes.listen();
      daemon.status.heartbeat();
      const arrival = await daemon.inbox.look('changed');
      // A release whose wave is closed offers nothing, not even endpoints.
      const offered = arrival.kind === 'bundle' && !arrival.waits ? arrival : arrival.meanwhile;
      if (!offered || offered.tree === last) return undefined;
      last = offered.tree;
      this.#sees(offered);
      early.offer(last.files);
      return { files: last.files, onlyEndpoints: isOnlyEndpoints(offered) };
    };
    try {
      return await work({ arrival: () => wakes.arrival, look, isEnding });
    } finally {
      clearInterval(timer);
      early.end();
    }
  }
}

/** What a release says of itself counts until it is in: live endpoints come after it, without a signature. */
function saidBy({ live, isUrgent, acceptsRemoval, release }: ArrivedBundle, active: string | undefined): SaidByRelease {
  if (live && live.version === active) return { version: live.version };
  return {
    ...(live ? { version: live.version } : {}),
    ...(isUrgent ? { isUrgent } : {}),
    ...(acceptsRemoval ? { acceptsRemoval } : {}),
    ...(release ? { release } : {}),
  };
}

const isOnlyEndpoints = ({ release }: ArrivedBundle): boolean => release?.onlyEndpoints === true;

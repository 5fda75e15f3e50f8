import type { Problem } from '@sluice/netfilter';
import type { Arrival, Inbox } from '../inbox/inbox.ts';
import type { Extent, Tree } from '../inbox/files.ts';
import type { WaitingRelease } from '../inbox/wave-gate.ts';
import { describe, type Outcome, rating } from '../ports/outcome.ts';
import type { Journal } from '../ports/journal.ts';
import type { Reconciler } from '../reconcile/reconciler.ts';
import type { Offers } from '../transaction/offers.ts';
import { messageOf } from '../message.ts';
import { StillDiffers } from '../transaction/still-differs.ts';
import { EarlyEndpointsWatch } from './early-endpoints-watch.ts';
import type { Drift } from './drift.ts';
import type { ForeignChange } from '../kernel/changes.ts';
import { type Repair, repairOf } from '../status/repairs.ts';
import { Orders } from './orders.ts';
import type { Status } from '../status/status.ts';
import { limits } from '../limits.ts';
import { RehearsalBackOff } from './rehearsal-back-off.ts';

export interface DaemonLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  fatal(details: object, message: string): void;
}

/** The result of a change, or the refusal of a directory. */
type DaemonOutcome = Outcome | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

export interface DaemonParts {
  readonly reconciler: Pick<Reconciler, 'recover' | 'repair' | 'put' | 'rehearse'>;
  readonly journal: Pick<Journal, 'active' | 'halted'>;
  readonly inbox: Pick<Inbox, 'look'>;
  readonly status: Status;
  readonly log: DaemonLog;
  /** The facts of the machine that rules depend on, such as its addresses; when they change, the bundle is applied again. */
  readonly machine: () => string;
  readonly monotonicMs: () => number;
  /** Processor time that this process and its children have used; default: all of the time. */
  readonly processorMs?: () => number;
  readonly scanIntervalMs: number;
  /** Tells when other programs may have changed the kernel; without it only a scan finds drift. */
  readonly drift?: Drift;
  /** Called once, when the kernel holds the confirmed rules or cannot be made to. */
  readonly ready: () => void;
  /** Called with the files of a bundle that is now in the kernel. */
  readonly taken?: (files: Tree['files']) => Promise<void>;
  /** Called with the files of a bundle whose endpoints reached the active generation before, or without, the rest of it. */
  readonly earlyEndpoints?: (files: Tree['files']) => void;
  /**
   * Called with the result of a change or the refusal of a directory, for receipts. `onlyEndpoints`: only the endpoints of the tree count.
   */
  readonly ended?: (ending: DaemonOutcome, tree?: Tree, onlyEndpoints?: boolean) => Promise<void>;
  /** Called when the release in the directory waits for its wave only: an earlier refusal is over. */
  readonly waits?: () => Promise<void>;
  /** Called once per round, for work that is retried until it succeeds. */
  readonly round?: () => Promise<void>;
  /** Called after a drift repair. */
  readonly repaired?: (repair: Repair) => void;
  /** Called when the loop is idle. */
  readonly idle?: () => void;
}

/**
 * The main loop: finish what a crash left open, repair drift, then apply the newest bundle, one at a time. Events that arrive while a
 * bundle is applied count as one event afterwards, so only the newest bundle is ever applied.
 */
export class Daemon {
  readonly #parts: DaemonParts;
  #wake = Promise.withResolvers<'event' | 'stop'>();
  /** As `#wake`, for a wait during probation; replaced after each look. */
  #arrived = Promise.withResolvers<void>();
  /** Ends a rest because the kernel changed. */
  #kernelChanged = Promise.withResolvers<false>();
  /** How much the next look reads: everything at a scan, less often where that is slow. */
  #extent: Extent = 'whole';
  #wholeDueMs = -Infinity;
  #stopping = false;
  readonly #early: EarlyEndpointsWatch;
  /** The tree and machine facts that the kernel holds: nothing to do while both are unchanged. */
  #done: { readonly tree: Tree; readonly machine: string } | undefined;
  #lastLogged = '';
  /** When the tree in the directory has to be applied again: the last endpoint of a Service is removed late. */
  #againMs = Infinity;
  /** The tree that was rehearsed last while its wave was closed. */
  #rehearsed: Tree | undefined;
  readonly #rehearsalBackOff: RehearsalBackOff;
  readonly #orders = new Orders();
  /** Whether the last reported result is the refusal of a directory. */
  #hasReportedRefusal = false;
  /** A bundle is being applied. */
  #isChanging = false;
  /** When drift was repaired, within the last `limits.repairsWindowMs`. */
  #repairsMs: readonly number[] = [];

  constructor(parts: DaemonParts) {
    this.#parts = parts;
    this.#rehearsalBackOff = new RehearsalBackOff(parts.monotonicMs);
    this.#early = new EarlyEndpointsWatch({
      active: () => parts.journal.active,
      earlyEndpoints: (files) => parts.earlyEndpoints?.(files),
    });
  }

  /**
   * Reports an event in the bundle directory.
   * @param extent `whole` when an operator asks for a look: then every file is read again
   */
  poke(extent: Extent = 'changed'): void {
    if (extent === 'whole') {
      this.#extent = extent;
      this.#rehearsalBackOff.forget();
    }
    this.#wake.resolve('event');
    this.#arrived.resolve();
  }

  /**
   * Carries out an operator's order between two rounds, so that no two methods of the reconciler overlap. A release on probation ends
   * first.
   * @throws the errors of the work; CommandError when a change in progress does not end in time
   */
  async order<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#orders.add(work);
    this.#wake.resolve('event');
    this.#arrived.resolve();
    return done;
  }

  /** Ends the loop after the bundle that is being applied; a release on probation is rolled back now. */
  stop(): void {
    this.#stopping = true;
    this.#wake.resolve('stop');
    this.#arrived.resolve();
  }

  async run(): Promise<void> {
    await this.#recover();
    let dueMs = -Infinity;
    for (let first = true; !this.#stopping; first = false) {
      const { monotonicMs, scanIntervalMs, ready } = this.#parts;
      this.#wake = Promise.withResolvers();
      await this.#carryOutOrders();
      if (monotonicMs() >= dueMs) {
        if (monotonicMs() >= this.#wholeDueMs) this.#extent = 'whole';
        await this.#reconcile(this.#isInDriftLoop || (this.#parts.drift?.isDue ?? true));
        dueMs =
          monotonicMs() + (this.#isInDriftLoop ? Math.max(limits.driftLoopPaceMs, scanIntervalMs) : scanIntervalMs);
      }
      if (first) ready();
      await this.#look();
      await this.#parts.round?.();
      this.#parts.status.heartbeat();
      await this.#sleep(Math.min(dueMs, this.#againMs));
    }
    this.#orders.refuse();
  }

  /** After an order the directory is read as if for the first time: it may hold the release that was rolled back. */
  async #carryOutOrders(): Promise<void> {
    if (this.#orders.size === 0) return;
    this.#isChanging = true;
    try {
      await this.#orders.carryOut();
    } finally {
      this.#isChanging = false;
      this.#parts.drift?.wrote();
    }
    this.#done = undefined;
    this.#extent = 'whole';
    this.#showActive();
  }

  /** Sleeps until the next scan or an event of the bundle directory, and repairs drift meanwhile. */
  async #sleep(untilMs: number): Promise<void> {
    const { drift, monotonicMs, idle } = this.#parts;
    for (;;) {
      idle?.();
      // In a drift loop only the scan repairs, at its slower pace.
      const lookMs = drift && !this.#isInDriftLoop ? drift.dueMs : Infinity;
      const restMs = Math.min(untilMs, lookMs) - monotonicMs();
      const woken = await this.#rest(Math.max(restMs, 0));
      if (woken || monotonicMs() >= untilMs) return;
      if (!this.#isInDriftLoop && (await drift?.look())) await this.#reconcile(true);
    }
  }

  /** @returns true after an event of the bundle directory, false after the time or a change in the kernel */
  async #rest(ms: number): Promise<boolean> {
    this.#kernelChanged = Promise.withResolvers();
    const { promise, resolve } = this.#kernelChanged;
    const timer = setTimeout(() => resolve(false), ms);
    const woken = await Promise.race([this.#wake.promise.then(() => true), promise]);
    clearTimeout(timer);
    return woken;
  }

  /** Aborts on an event of the bundle directory or a stop. */
  #woken(): AbortSignal {
    const controller = new AbortController();
    void this.#wake.promise.then(() => controller.abort());
    return controller.signal;
  }

  /** Another program changed something in the kernel. */
  changed(change: ForeignChange): void {
    this.#parts.drift?.onEvent(change);
    this.#kernelChanged.resolve(false);
  }

  /** Why the rules are not known to be right: they were not read for too long. Undefined during a change, which reads them itself. */
  get unseen(): string | undefined {
    const unseenMs = this.#isChanging ? undefined : this.#parts.drift?.unseenMs;
    if (unseenMs === undefined) return undefined;
    return `the tables were last known to hold the confirmed rules ${Math.round(unseenMs / 1000)} s ago; reading them again`;
  }

  /** A transaction reported an event. */
  onEvent(): void {
    this.#early.look();
  }

  async #recover(): Promise<void> {
    const { reconciler, log } = this.#parts;
    try {
      const outcome = await reconciler.recover();
      if (!outcome) return;
      this.#report(outcome);
      await this.#ended(outcome);
    } catch (error) {
      log.error({ because: messageOf(error) }, 'cannot finish the change that was left open');
      this.#parts.status.raise('KERNEL', messageOf(error));
    }
  }

  /**
   * Repairs drift in our chains and jumps.
   * @param tables false when no change of the tables was reported: only the cheap rest is compared
   */
  async #reconcile(tables: boolean): Promise<void> {
    const { reconciler, status, log, drift, monotonicMs, processorMs = monotonicMs } = this.#parts;
    const beginMs = processorMs();
    const interrupt = drift?.canWait === true && !this.#isInDriftLoop ? this.#woken() : undefined;
    const changes = drift?.take() ?? [];
    try {
      const steps = await reconciler.repair(tables, interrupt);
      if (steps === 'interrupted') return drift?.wasInterrupted();
      if (tables || steps > 0) drift?.compared(processorMs() - beginMs, steps);
      if (steps > 0) {
        const repair = repairOf(steps, changes);
        this.#parts.repaired?.(repair);
        this.#countRepair();
        log.warn(repair, `drift repaired: rules were changed by ${repair.by ?? 'another program'}`);
      }
      status.clear('KERNEL');
    } catch (error) {
      drift?.failed(processorMs() - beginMs);
      // A writer that undoes a repair before it is verified is in a loop with us, too.
      if (error instanceof StillDiffers) this.#countRepair();
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot restore the confirmed rules in the kernel; retrying');
    }
    this.#judgeDriftLoop();
    this.#showActive();
  }

  #showActive(): void {
    const { status, journal } = this.#parts;
    status.activate(journal.active);
    if (journal.halted === undefined) status.clear('NODE_HELD');
    else status.raise('NODE_HELD', journal.halted);
  }

  #countRepair(): void {
    this.#repairsMs = [...this.#repairsMs, this.#parts.monotonicMs()];
  }

  get #isInDriftLoop(): boolean {
    return this.#repairsMs.length > limits.repairsMax;
  }

  /**
   * Does not try to outrun a program that undoes our rules again and again: the alarm calls an operator, repairs slow down, no rule is
   * removed.
   */
  #judgeDriftLoop(): void {
    const sinceMs = this.#parts.monotonicMs() - limits.repairsWindowMs;
    this.#repairsMs = this.#repairsMs.filter((atMs) => atMs >= sinceMs);
    if (!this.#isInDriftLoop) return this.#parts.status.clear('DRIFT_LOOP');
    const minutes = limits.repairsWindowMs / 60_000;
    const why = `another program changed our rules ${this.#repairsMs.length} times in ${minutes} minutes`;
    this.#parts.status.raise(
      'DRIFT_LOOP',
      `${why}; drift repair continues, at most every ${limits.driftLoopPaceMs / 1000} s`,
    );
  }

  async #look(): Promise<void> {
    const { status, journal } = this.#parts;
    this.#againMs = Infinity;
    const arrival = await this.#arrival();
    if (arrival.kind === 'absent') {
      status.raise('BUNDLE_ABSENT', 'the bundle directory does not exist; the rules stay as they are');
      return;
    }
    status.clear('BUNDLE_ABSENT');
    if (arrival.kind === 'refused') {
      status.refused(arrival.problems);
      this.#logOnce('warn', { problems: arrival.problems }, 'no complete bundle in the bundle directory');
      // A half-copied directory says nothing about a release.
      const isRefused = arrival.problems.some(({ code }) => code !== 'BUNDLE_INCOMPLETE');
      if (isRefused) await this.#ended({ kind: 'refused', problems: arrival.problems });
      this.#hasReportedRefusal ||= isRefused;
      return;
    }
    status.accepted(arrival.release, arrival.alarms ?? []);
    if (!arrival.waits) status.waits(undefined);
    const machine = this.#parts.machine();
    if (journal.halted !== undefined) return;
    const onlyEndpoints = arrival.release?.onlyEndpoints === true;
    if (arrival.tree === this.#done?.tree && machine === this.#done.machine)
      return this.#unchanged(arrival.tree, onlyEndpoints);
    const paused = this.#rehearsalBackOff.of(arrival.tree, machine);
    if (paused) return this.#report(paused);
    if (arrival.waits && (await this.#waits(arrival.tree, machine, arrival.waits))) return;
    const startMs = this.#parts.monotonicMs();
    const outcome = await this.#put(arrival.tree, onlyEndpoints, arrival.isUrgent);
    // Other refusals are retried: a running kube-proxy ends, a busy kernel becomes free. The journal knows bad versions.
    this.#rehearsalBackOff.ended(arrival.tree, machine, outcome, startMs);
    const isIn = outcome?.kind === 'same' || outcome?.kind === 'confirmed';
    const waitsMs = isIn ? outcome.waitsMs : undefined;
    if (waitsMs !== undefined) this.#againMs = this.#parts.monotonicMs() + waitsMs;
    this.#done = isIn && waitsMs === undefined ? { tree: arrival.tree, machine } : undefined;
    if (!isIn) return;
    await this.#parts.taken?.(arrival.tree.files);
    this.#early.isIn(arrival.tree.files);
  }

  async #arrival(): Promise<Arrival> {
    const { inbox, monotonicMs } = this.#parts;
    const extent = this.#extent;
    this.#extent = 'changed';
    const beginMs = monotonicMs();
    const arrival = await inbox.look(extent);
    const nowMs = monotonicMs();
    const againMs = Math.min((nowMs - beginMs) * limits.wholeLookFactor, limits.wholeLookMsMax);
    if (extent === 'whole') this.#wholeDueMs = nowMs + againMs;
    return arrival;
  }

  /** A directory that was refused in between holds the same tree as before: only the status changes. */
  async #unchanged(tree: Tree, onlyEndpoints: boolean): Promise<void> {
    const { active } = this.#parts.journal;
    this.#parts.status.clearBundle();
    if (this.#hasReportedRefusal && active)
      await this.#ended({ kind: 'same', generation: active }, tree, onlyEndpoints);
  }

  async #ended(ending: DaemonOutcome, tree?: Tree, onlyEndpoints = false): Promise<void> {
    this.#hasReportedRefusal = false;
    await this.#parts.ended?.(ending, tree, onlyEndpoints);
  }

  /**
   * Rehearses a release whose wave is closed, until that succeeds once, so that problems show before the wave opens.
   * @returns false when the release does not change the rules of this node: then there is nothing to wait for
   */
  async #waits(tree: Tree, machine: string, waiting: WaitingRelease): Promise<boolean> {
    const { reconciler, status, log } = this.#parts;
    if (tree === this.#rehearsed) return this.#onlyWaits();
    const startMs = this.#parts.monotonicMs();
    try {
      const opinion = await reconciler.rehearse(tree.files);
      status.waits(opinion === 'same' ? undefined : waiting);
      if (opinion === 'same') return false;
      if (opinion !== 'ready') {
        const refused: Outcome = { kind: 'refused', refusal: opinion };
        this.#rehearsalBackOff.ended(tree, machine, refused, startMs);
        this.#report(refused);
        await this.#ended(refused, tree);
        return true;
      }
      this.#rehearsed = tree;
      this.#logOnce('info', { wave: waiting.wave, name: waiting.name }, waiting.problem.message);
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
    this.#parts.status.clearBundle();
    await this.#parts.waits?.();
    return true;
  }

  async #put(tree: Tree, onlyEndpoints: boolean, isUrgent = false): Promise<Outcome | undefined> {
    const { reconciler, journal, status, log, monotonicMs } = this.#parts;
    const startMs = monotonicMs();
    this.#isChanging = true;
    try {
      const outcome = await this.#withOffers(tree, (offers) =>
        reconciler.put(tree.files, false, offers, onlyEndpoints, isUrgent),
      );
      if (outcome.kind === 'confirmed' || outcome.kind === 'rolled-back') this.#parts.drift?.saw();
      status.ended(outcome, (monotonicMs() - startMs) / 1000);
      status.activate(journal.active);
      this.#report(outcome);
      if (!('waitsMs' in outcome)) await this.#ended(outcome, tree, onlyEndpoints);
      return outcome;
    } catch (error) {
      this.#parts.drift?.doubted();
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot apply the bundle; retrying');
      return undefined;
    } finally {
      this.#isChanging = false;
      this.#parts.drift?.wrote();
    }
  }

  /** Offers newer trees to a change in progress: after events of the directory, and once per scan interval. */
  async #withOffers<T>(first: Tree, work: (offers: Offers) => Promise<T>): Promise<T> {
    const { inbox, status, scanIntervalMs } = this.#parts;
    let last = first;
    this.#early.begin(first.files);
    this.#arrived = Promise.withResolvers();
    const timer = setInterval(() => this.#arrived.resolve(), scanIntervalMs);
    const look: Offers['look'] = async () => {
      this.#arrived = Promise.withResolvers();
      status.heartbeat();
      const arrival = await inbox.look('changed');
      // A release whose wave is closed offers nothing, not even endpoints.
      if (arrival.kind !== 'bundle' || arrival.tree === last || arrival.waits) return undefined;
      last = arrival.tree;
      this.#early.offer(last.files);
      return { files: last.files, onlyEndpoints: arrival.release?.onlyEndpoints === true };
    };
    try {
      return await work({
        arrival: () => this.#arrived.promise,
        look,
        isEnding: () => this.#stopping || this.#orders.size > 0,
      });
    } finally {
      clearInterval(timer);
      this.#early.end();
    }
  }

  #report(outcome: Outcome): void {
    const { status } = this.#parts;
    switch (outcome.kind) {
      case 'refused':
        status.refused(outcome.refusal.problems);
        break;
      case 'rolled-back':
        status.raise('ROLLED_BACK', outcome.because);
        break;
      case 'held':
        status.raise('NODE_HELD', `${outcome.because}; ${outcome.rollback}`);
        break;
      case 'same':
      case 'confirmed':
        status.clearBundle();
    }
    const problems = outcome.kind === 'refused' ? { problems: outcome.refusal.problems } : {};
    const isPartly = outcome.kind === 'refused' && this.#early.is;
    const message = isPartly
      ? `refused: ${outcome.refusal.problems.length} problem(s), only endpoints were applied`
      : describe(outcome);
    this.#logOnce(rating[outcome.kind].level, { outcome: outcome.kind, ...problems }, message);
  }

  /** Logs a lasting state when it begins, not at every scan. */
  #logOnce(level: keyof DaemonLog, details: object, message: string): void {
    const text = JSON.stringify([message, details]);
    if (text !== this.#lastLogged) this.#parts.log[level](details, message);
    this.#lastLogged = text;
  }
}

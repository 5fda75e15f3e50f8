import type { Extent } from '../inbox/files.ts';
import type { ForeignChange } from '../kernel/changes/foreign-change.ts';
import { limits, paces, pauseAfter } from '../limits.ts';
import { messageOf } from '../message.ts';
import { StillDiffers } from '../ports/failure.ts';
import type { Outcome } from '../ports/outcome.ts';
import { repairOf } from '../observe/status/repairs.ts';
import type { Sight, Status } from '../observe/status/status.ts';
import { Bundles } from './bundles.ts';
import type { Drift } from './drift.ts';
import { EarlyEndpointsWatch } from './early-endpoints-watch.ts';
import { GoingOn } from './going-on.ts';
import { Looks } from './looks.ts';
import { Orders } from './orders.ts';
import type { DaemonDependencies } from './dependencies.ts';
import { Reports } from './reports.ts';
import { Wakes } from './wakes.ts';

type FlowDependencies = Pick<DaemonDependencies, 'monotonicMs' | 'processorMs'> & {
  readonly log: Pick<DaemonDependencies['log'], 'warn'>;
  readonly reconciler: Pick<DaemonDependencies['reconciler'], 'reconcileFlows'>;
};

/**
 * Compares the conntrack entries of UDP with the endpoints from time to time, so rarely that a node with a large table does not notice: a
 * deletion after a change may have failed, or an entry may have been made while the rules changed.
 * @returns to be called between two changes; it compares if that is due, and never fails
 */
export function flowComparison(parts: FlowDependencies): () => Promise<void> {
  const { reconciler, log, monotonicMs, processorMs = monotonicMs } = parts;
  // A start has other work, and a change forgets the flows that it ends.
  let dueMs = monotonicMs() + paces.flows.leastMs;
  let failed: string | undefined;
  return async () => {
    if (monotonicMs() < dueMs) return;
    const beginMs = processorMs();
    try {
      const flows = (await reconciler.reconcileFlows?.()) ?? 0;
      if (flows > 0) log.warn({ flows }, 'deleted conntrack entries that lead to no endpoint of their Service');
      failed = undefined;
    } catch (error) {
      const because = messageOf(error);
      if (because !== failed) log.warn({ because }, 'cannot compare conntrack entries with the endpoints; retrying');
      failed = because;
    }
    dueMs = monotonicMs() + pauseAfter(processorMs() - beginMs, paces.flows);
  };
}

/**
 * The main loop: finish what a crash left open, repair drift, then apply the newest bundle, one at a time. Events that arrive while a
 * bundle is applied count as one event afterwards, so only the newest bundle is ever applied.
 */
export class Daemon {
  readonly #parts: DaemonDependencies;
  readonly #wakes = new Wakes();
  readonly #orders = new Orders();
  readonly #driftLoop = new DriftLoop();
  readonly #looks: Looks;
  readonly #reports: Reports;
  readonly #early: EarlyEndpointsWatch;
  readonly #bundles: Bundles;
  readonly #compareFlows: () => Promise<void>;
  #stopping = false;

  constructor(parts: DaemonDependencies) {
    this.#parts = parts;
    this.#looks = new Looks(parts.inbox, parts.monotonicMs, () => this.#wakes.signal());
    this.#reports = new Reports(parts.status, parts.log, parts.ended);
    this.#compareFlows = flowComparison(parts);
    this.#early = new EarlyEndpointsWatch(parts);
    this.#bundles = new Bundles({
      daemon: parts,
      looks: this.#looks,
      reports: this.#reports,
      wakes: this.#wakes,
      early: this.#early,
      goingOn: new GoingOn(parts),
      begins: () => this.#orders.beginChange(),
      isEnding: () => this.#stopping || this.#orders.endsChange(),
    });
  }

  async run(): Promise<void> {
    await this.#recover();
    let dueMs = -Infinity;
    for (let first = true; !this.#stopping; first = false) {
      const { monotonicMs, scanIntervalMs, ready, drift } = this.#parts;
      this.#wakes.begin();
      await this.#carryOutOrders();
      if (monotonicMs() >= dueMs) {
        this.#looks.scan();
        await this.#repair(this.#driftLoop.is || (drift?.isDue ?? true));
        dueMs = monotonicMs() + this.#driftLoop.paceMs(scanIntervalMs);
      }
      if (first) ready();
      const wasBare = this.#isBare;
      await this.#bundles.look();
      // The transaction of a first release does not read the table of mode nftables back.
      if (wasBare && !this.#isBare && this.#parts.journal.active?.state.nft) {
        drift?.doubted();
        dueMs = Math.min(dueMs, monotonicMs() + limits.readBackMs);
      }
      await this.#compareFlows();
      await this.#parts.round?.();
      this.#parts.status.heartbeat();
      const againMs = Math.min(dueMs, this.#bundles.againMs);
      this.#parts.status.looksAgain(againMs);
      await this.#sleep(againMs);
    }
    this.#orders.refuse();
  }

  /**
   * Reports an event in the bundle directory.
   * @param extent `whole` when an operator asks for a look: then every file is read again
   */
  poke(extent: Extent = 'changed'): void {
    if (extent === 'whole') this.#bundles.retry();
    this.#wakes.wake();
  }

  /**
   * Carries out an operator's order between two rounds, so that no two methods of the reconciler overlap. A release on probation ends
   * first.
   * @throws the errors of the work; CommandError when a change in progress does not end in time
   */
  async order<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#orders.add(work);
    this.#wakes.wake();
    return done;
  }

  /** Ends the loop after the bundle that is being applied; a release on probation is rolled back now. */
  stop(): void {
    this.#stopping = true;
    this.#wakes.wake();
  }

  /** Another program changed something in the kernel. */
  changed(change: ForeignChange): void {
    this.#parts.drift?.onEvent(change);
    this.#wakes.kernelChanged();
  }

  /** A transaction reported an event. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    // The baseline of a release needs the right rules, and repairs them like a scan.
    if (event === 'repaired') this.#repaired(Number(details['steps']), this.#parts.drift?.take() ?? []);
    this.#early.look();
  }

  /** Since when the kernel is known to hold the confirmed rules. A change reads them itself. */
  get sight(): Sight {
    const { drift } = this.#parts;
    if (this.#bundles.isChanging || drift === undefined) return { ageMs: 0, why: undefined };
    const { ageMs, unseenMs } = drift;
    const seconds = Math.round(ageMs / 1000);
    const why = `the tables were last known to hold the confirmed rules ${seconds} s ago; reading them again`;
    return { ageMs, why: unseenMs === undefined ? undefined : why };
  }

  /** Why an address should not be announced. A change in progress is none: it reads what it writes. */
  get doubt(): Drift['doubt'] {
    const doubt = this.#parts.drift?.doubt;
    return doubt === 'unseen' && this.#bundles.isChanging ? undefined : doubt;
  }

  /** No release was ever put in, or the last one was removed. */
  get #isBare(): boolean {
    return (this.#parts.journal.active?.number ?? 0) === 0;
  }

  async #recover(): Promise<void> {
    const { reconciler, log, status } = this.#parts;
    try {
      const outcome = await reconciler.recover();
      if (outcome) await this.#endedLate(outcome);
    } catch (error) {
      log.error({ because: messageOf(error) }, 'cannot finish the change that was left open');
      status.raise('KERNEL', messageOf(error));
    }
  }

  async #carryOutOrders(): Promise<void> {
    if (this.#orders.size === 0) return;
    await this.#bundles.changing(() => this.#orders.carryOut());
    this.#bundles.forget();
    this.#showActive();
  }

  /** Sleeps until the next scan or an event of the bundle directory, and repairs drift meanwhile. */
  async #sleep(untilMs: number): Promise<void> {
    const { drift, monotonicMs, idle } = this.#parts;
    for (;;) {
      // What was read ahead is needed soon: it is not packed.
      if (!this.#bundles.isFilling) idle?.();
      // In a drift loop only the scan repairs, at its slower pace.
      const lookMs = drift && !this.#driftLoop.is ? drift.dueMs : Infinity;
      const restMs = Math.min(untilMs, lookMs) - monotonicMs();
      const woken = await this.#wakes.rest(Math.max(restMs, 0));
      if (woken || monotonicMs() >= untilMs) return;
      if (!this.#driftLoop.is && (await drift?.look())) await this.#repair(true);
    }
  }

  /**
   * Repairs drift in our chains and jumps.
   * @param tables false when no change of the tables was reported: only the cheap rest is compared
   */
  async #repair(tables: boolean): Promise<void> {
    const { reconciler, status, log, drift, monotonicMs, processorMs = monotonicMs } = this.#parts;
    const beginMs = processorMs();
    const interrupt = drift?.canWait === true && !this.#driftLoop.is ? this.#wakes.signal() : undefined;
    const wasSeen = drift?.isSeen ?? true;
    const changes = drift?.take() ?? [];
    let late: Outcome | undefined;
    try {
      const steps = await reconciler.repair(tables, interrupt, (outcome) => void (late = outcome));
      if (steps === 'interrupted') drift?.wasInterrupted(processorMs() - beginMs);
      else {
        if (tables || steps > 0) drift?.compared(processorMs() - beginMs, steps);
        if (steps > 0) this.#repaired(steps, changes);
        status.clear('KERNEL');
      }
    } catch (error) {
      drift?.failed(processorMs() - beginMs);
      // A writer that undoes a repair before it is verified is in a loop with us, too. Without a sign of one it was a tool without effect,
      // or one that reads nothing: slower repairs would only be late when it is mended.
      const isUndone = error instanceof StillDiffers && (wasSeen || drift?.isSeen === true);
      if (isUndone) this.#driftLoop.count(monotonicMs());
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot restore the confirmed rules in the kernel; retrying');
    }
    if (late) await this.#endedLate(late);
    this.#driftLoop.judge(status, monotonicMs());
    this.#showActive();
  }

  /** A change whose end had to wait has ended: its release is told, like any other. */
  async #endedLate(outcome: Outcome): Promise<void> {
    this.#reports.outcome(outcome);
    await this.#reports.ended(outcome);
  }

  /** Drift was repaired. */
  #repaired(steps: number, changes: readonly ForeignChange[]): void {
    const { reconciler, log, monotonicMs } = this.#parts;
    const repair = repairOf(steps, changes, reconciler.removed);
    this.#parts.repaired?.(repair);
    this.#driftLoop.count(monotonicMs());
    log.warn(repair, `drift repaired: rules were changed by ${repair.by ?? 'another program'}`);
  }

  #showActive(): void {
    const { status, journal } = this.#parts;
    status.activate(journal.active);
    if (journal.halted === undefined) status.clear('NODE_HELD');
    else status.raise('NODE_HELD', journal.halted);
  }
}

/**
 * Finds out whether another program undoes our repairs again and again. Drift repair does not try to outrun it: the alarm calls an
 * operator, repairs slow down, no rule is removed.
 */
class DriftLoop {
  /** When drift was repaired, within the last `limits.repairsWindowMs`. */
  #repairsMs: readonly number[] = [];

  /** A repair, or one that another program undid before it was verified. */
  count(nowMs: number): void {
    this.#repairsMs = [...this.#repairsMs, nowMs];
  }

  get is(): boolean {
    return this.#repairsMs.length > limits.repairsMax;
  }

  /** The time between two scans. */
  paceMs(scanIntervalMs: number): number {
    return this.is ? Math.max(limits.driftLoopPaceMs, scanIntervalMs) : scanIntervalMs;
  }

  /** Raises or clears the alarm. */
  judge(status: Pick<Status, 'raise' | 'clear'>, nowMs: number): void {
    this.#repairsMs = this.#repairsMs.filter((atMs) => atMs >= nowMs - limits.repairsWindowMs);
    if (!this.is) return status.clear('DRIFT_LOOP');
    const minutes = limits.repairsWindowMs / 60_000;
    const why = `another program changed our rules ${this.#repairsMs.length} times in ${minutes} minutes`;
    status.raise('DRIFT_LOOP', `${why}; drift repair continues, at most every ${limits.driftLoopPaceMs / 1000} s`);
  }
}

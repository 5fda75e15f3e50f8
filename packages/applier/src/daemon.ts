import type { Problem } from '@sluice/bundle';
import type { Arrival, Inbox } from './inbox/inbox.ts';
import type { Extent, Tree } from './inbox/files.ts';
import type { Waiting } from './inbox/wave-gate.ts';
import { describe, type Outcome, rating } from './rollout/outcome.ts';
import type { Journal } from './rollout/ports.ts';
import type { Reconciler } from './transaction/reconciler.ts';
import type { Offers } from './transaction/offers.ts';
import { messageOf } from './rollout/message.ts';
import { StillDiffers } from './rollout/still-differs.ts';
import { EarlyEndpointsWatch } from './early-endpoints-watch.ts';
import type { Drift } from './drift.ts';
import type { Change } from './kernel/changes.ts';
import { type Repair, repairOf } from './repairs.ts';
import { Orders } from './orders.ts';
import type { Status } from './status.ts';
import { limits } from './limits.ts';
import { RehearsalBackOff } from './rehearsal-back-off.ts';

export interface Log {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  fatal(details: object, message: string): void;
}

/** A change that ended, or a directory that was not taken. */
type Ending = Outcome | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

export interface DaemonParts {
  readonly reconciler: Pick<Reconciler, 'recover' | 'reconcile' | 'put' | 'rehearse'>;
  readonly journal: Pick<Journal, 'active' | 'halted'>;
  readonly inbox: Pick<Inbox, 'look'>;
  readonly status: Status;
  readonly log: Log;
  /** What of the machine itself goes into the rules, such as its addresses. Another value asks for the bundle to be put in again. */
  readonly machine: () => string;
  readonly monotonicMs: () => number;
  /** What of a processor this process and its children have used; left out: all of the time. */
  readonly processorMs?: () => number;
  readonly scanIntervalMs: number;
  /** Says when the kernel may have been changed by others; without it, a scan finds that. */
  readonly drift?: Drift;
  /** Called once, when the kernel holds the confirmed rules or is known not to. */
  readonly ready: () => void;
  /** Called with the files of a bundle that the kernel now holds. */
  readonly taken?: (files: Tree['files']) => Promise<void>;
  /** Called with the files of a bundle of which endpoints came to what stands, though the bundle itself is not in, or not yet. */
  readonly earlyEndpoints?: (files: Tree['files']) => void;
  /** Called with how a change ended, or why a directory was not taken; for receipts. Whether nothing but endpoints of the tree counts. */
  readonly ended?: (ending: Ending, tree?: Tree, onlyEndpoints?: boolean) => Promise<void>;
  /** Called when the release in the directory waits for its wave and for nothing else: what was refused before is over. */
  readonly waits?: () => Promise<void>;
  /** Called once a round, for what is tried again until it succeeds. */
  readonly round?: () => Promise<void>;
  /** Called when rules that others changed were put right. */
  readonly repaired?: (repair: Repair) => void;
  /** Called when there is nothing to do, for what is done then. */
  readonly idle?: () => void;
}

/**
 * The loop: finish what a crash left, put the confirmed rules back, then take the newest bundle, one at a time. Events that arrive
 * while a bundle is put in are one event afterwards, so only the newest bundle is ever taken.
 */
export class Daemon {
  readonly #parts: DaemonParts;
  #wake = Promise.withResolvers<'event' | 'stop'>();
  /** The same for whoever waits during a trial; it is another one after each look. */
  #news = Promise.withResolvers<void>();
  /** Ends a rest because of the kernel. */
  #stirred = Promise.withResolvers<false>();
  /** How much the next look takes in: all of it at a scan, though not at each one where that takes long. */
  #extent: Extent = 'whole';
  #wholeDueMs = -Infinity;
  #stopping = false;
  readonly #early: EarlyEndpointsWatch;
  /** What the kernel holds: nothing is to be done while both are the same. */
  #done: { readonly tree: Tree; readonly machine: string } | undefined;
  #said = '';
  /** When what waits in the directory is to be put in again: the last endpoint of a Service goes late. */
  #againMs = Infinity;
  /** The tree that was rehearsed last while its wave was shut. */
  #rehearsed: Tree | undefined;
  readonly #rehearsalBackOff: RehearsalBackOff;
  readonly #orders = new Orders();
  /** Whether the last ending that was told is a directory that was not taken. */
  #toldRefusal = false;
  /** A bundle is being put in. */
  #isChanging = false;
  /** When the rules were repaired, within the window of `limits.repairsWindowMs`. */
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
   * Something happened in the bundle directory.
   * @param extent `whole` when a person asks for a look: then nothing is taken for unchanged
   */
  poke(extent: Extent = 'changed'): void {
    if (extent === 'whole') {
      this.#extent = extent;
      this.#rehearsalBackOff.forget();
    }
    this.#wake.resolve('event');
    this.#news.resolve();
  }

  /**
   * Carries out an operator's order between two rounds, so that no two methods of the reconciler overlap. A release on probation ends first.
   * @throws what the work throws; CommandError where a change in progress does not end in time
   */
  async order<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#orders.add(work);
    this.#wake.resolve('event');
    this.#news.resolve();
    return done;
  }

  /** Ends the loop after the bundle that is being put in; a trial ends now, and the old rules come back. */
  stop(): void {
    this.#stopping = true;
    this.#wake.resolve('stop');
    this.#news.resolve();
  }

  async run(): Promise<void> {
    await this.#recover();
    let dueMs = -Infinity;
    for (let first = true; !this.#stopping; first = false) {
      const { monotonicMs, scanIntervalMs, ready } = this.#parts;
      this.#wake = Promise.withResolvers();
      await this.#obey();
      if (monotonicMs() >= dueMs) {
        if (monotonicMs() >= this.#wholeDueMs) this.#extent = 'whole';
        await this.#reconcile(this.#fights || (this.#parts.drift?.isDue ?? true));
        dueMs = monotonicMs() + (this.#fights ? Math.max(limits.fightPaceMs, scanIntervalMs) : scanIntervalMs);
      }
      if (first) ready();
      await this.#look();
      await this.#parts.round?.();
      this.#parts.status.beat();
      await this.#sleep(Math.min(dueMs, this.#againMs));
    }
    this.#orders.refuse();
  }

  /** Behind an order the directory is looked at as if for the first time: what it holds may be the release that was left. */
  async #obey(): Promise<void> {
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
    this.#tellActive();
  }

  /** Until the next scan or an event of the bundle directory. What others change in the kernel meanwhile is put right. */
  async #sleep(untilMs: number): Promise<void> {
    const { drift, monotonicMs, idle } = this.#parts;
    for (;;) {
      idle?.();
      // In a fight the scan alone repairs, at its slower pace.
      const lookMs = drift && !this.#fights ? drift.dueMs : Infinity;
      const restMs = Math.min(untilMs, lookMs) - monotonicMs();
      const woken = await this.#rest(Math.max(restMs, 0));
      if (woken || monotonicMs() >= untilMs) return;
      if (!this.#fights && (await drift?.look())) await this.#reconcile(true);
    }
  }

  /** @returns whether something happened in the bundle directory; a change in the kernel only ends the rest */
  async #rest(ms: number): Promise<boolean> {
    this.#stirred = Promise.withResolvers();
    const { promise, resolve } = this.#stirred;
    const timer = setTimeout(() => resolve(false), ms);
    const woken = await Promise.race([this.#wake.promise.then(() => true), promise]);
    clearTimeout(timer);
    return woken;
  }

  /** Aborts when something happens in the bundle directory, or the loop is to end. */
  #woken(): AbortSignal {
    const controller = new AbortController();
    void this.#wake.promise.then(() => controller.abort());
    return controller.signal;
  }

  /** Somebody else changed something in the kernel. */
  changed(change: Change): void {
    this.#parts.drift?.heard(change);
    this.#stirred.resolve(false);
  }

  /** Why the rules cannot be called right: nobody has looked for too long. Undefined while a change is made, which looks itself. */
  get unseen(): string | undefined {
    const unseenMs = this.#isChanging ? undefined : this.#parts.drift?.unseenMs;
    if (unseenMs === undefined) return undefined;
    return `the tables were last seen to hold the confirmed rules ${Math.round(unseenMs / 1000)} s ago; looking again`;
  }

  /** A change says something on its way. */
  heard(): void {
    this.#early.look();
  }

  async #recover(): Promise<void> {
    const { reconciler, log } = this.#parts;
    try {
      const outcome = await reconciler.recover();
      if (!outcome) return;
      this.#say(outcome);
      await this.#ended(outcome);
    } catch (error) {
      log.error({ because: messageOf(error) }, 'cannot finish what was left open');
      this.#parts.status.raise('KERNEL', messageOf(error));
    }
  }

  /**
   * Drift: what others changed in our chains and jumps is put right.
   * @param tables false: nobody told of a change in them, and the rest is cheap to look at
   */
  async #reconcile(tables: boolean): Promise<void> {
    const { reconciler, status, log, drift, monotonicMs, processorMs = monotonicMs } = this.#parts;
    const beginMs = processorMs();
    const interrupt = drift?.canWait === true && !this.#fights ? this.#woken() : undefined;
    const changes = drift?.take() ?? [];
    try {
      const steps = await reconciler.reconcile(tables, interrupt);
      if (steps === 'interrupted') return drift?.wasInterrupted();
      if (tables || steps > 0) drift?.compared(processorMs() - beginMs, steps);
      if (steps > 0) {
        const repair = repairOf(steps, changes);
        this.#parts.repaired?.(repair);
        this.#countRepair();
        log.warn(repair, 'the kernel did not hold the confirmed rules; it does now');
      }
      status.clear('KERNEL');
    } catch (error) {
      drift?.failed(processorMs() - beginMs);
      // Who undoes a repair before it is looked at fights, too.
      if (error instanceof StillDiffers) this.#countRepair();
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot make the kernel hold the confirmed rules; trying again');
    }
    this.#judgeFight();
    this.#tellActive();
  }

  #tellActive(): void {
    const { status, journal } = this.#parts;
    status.activate(journal.active);
    if (journal.halted === undefined) status.clear('NODE_HELD');
    else status.raise('NODE_HELD', journal.halted);
  }

  #countRepair(): void {
    this.#repairsMs = [...this.#repairsMs, this.#parts.monotonicMs()];
  }

  get #fights(): boolean {
    return this.#repairsMs.length > limits.repairsMax;
  }

  /** Somebody who undoes our rules again and again is not outrun: the alarm calls a person, repairs go on more slowly, nothing is torn down. */
  #judgeFight(): void {
    const sinceMs = this.#parts.monotonicMs() - limits.repairsWindowMs;
    this.#repairsMs = this.#repairsMs.filter((atMs) => atMs >= sinceMs);
    if (!this.#fights) return this.#parts.status.clear('FIGHT');
    const minutes = limits.repairsWindowMs / 60_000;
    const why = `somebody else changed our rules ${this.#repairsMs.length} times in ${minutes} minutes`;
    this.#parts.status.raise('FIGHT', `${why}; repairs go on, at most every ${limits.fightPaceMs / 1000} s`);
  }

  async #look(): Promise<void> {
    const { status, journal } = this.#parts;
    this.#againMs = Infinity;
    const arrival = await this.#arrival();
    if (arrival.kind === 'absent') {
      status.raise('BUNDLE_ABSENT', 'the bundle directory is not there; the rules stay as they are');
      return;
    }
    status.clear('BUNDLE_ABSENT');
    if (arrival.kind === 'refused') {
      status.refused(arrival.problems);
      this.#sayOnce('warn', { problems: arrival.problems }, 'the bundle directory holds no complete bundle');
      // What is half copied says nothing of a release.
      const isRefused = arrival.problems.some(({ code }) => code !== 'BUNDLE_INCOMPLETE');
      if (isRefused) await this.#ended({ kind: 'refused', problems: arrival.problems });
      this.#toldRefusal ||= isRefused;
      return;
    }
    status.accepted(arrival.release, arrival.alarms ?? []);
    if (!arrival.waits) status.waits(undefined);
    const machine = this.#parts.machine();
    if (journal.halted !== undefined) return;
    const onlyEndpoints = arrival.release?.onlyEndpoints === true;
    if (arrival.tree === this.#done?.tree && machine === this.#done.machine)
      return this.#again(arrival.tree, onlyEndpoints);
    const paused = this.#rehearsalBackOff.of(arrival.tree, machine);
    if (paused) return this.#say(paused);
    if (arrival.waits && (await this.#waits(arrival.tree, machine, arrival.waits))) return;
    const startMs = this.#parts.monotonicMs();
    const outcome = await this.#put(arrival.tree, onlyEndpoints, arrival.isUrgent);
    // Anything else is tried again: a kube-proxy that still runs ends, a busy kernel becomes free. The journal knows bad versions.
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

  /** A directory that was refused in between is what it was: nothing is to be done but to say so. */
  async #again(tree: Tree, onlyEndpoints: boolean): Promise<void> {
    const { active } = this.#parts.journal;
    this.#parts.status.clearBundle();
    if (this.#toldRefusal && active) await this.#ended({ kind: 'same', generation: active }, tree, onlyEndpoints);
  }

  async #ended(ending: Ending, tree?: Tree, onlyEndpoints = false): Promise<void> {
    this.#toldRefusal = false;
    await this.#parts.ended?.(ending, tree, onlyEndpoints);
  }

  /**
   * A release whose wave is shut is only rehearsed, once when it goes well, so that no wave finds out what could be known before.
   * @returns false when it leaves the rules of this node as they are: then there is nothing to wait for
   */
  async #waits(tree: Tree, machine: string, waiting: Waiting): Promise<boolean> {
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
        this.#say(refused);
        await this.#ended(refused, tree);
        return true;
      }
      this.#rehearsed = tree;
      this.#sayOnce('info', { wave: waiting.wave, name: waiting.name }, waiting.problem.message);
      return await this.#onlyWaits();
    } catch (error) {
      status.waits(waiting);
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot rehearse the release that waits; trying again');
    }
    return true;
  }

  /** A release would go in: what was wrong with it or with the directory before is over. */
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
      this.#say(outcome);
      if (!('waitsMs' in outcome)) await this.#ended(outcome, tree, onlyEndpoints);
      return outcome;
    } catch (error) {
      this.#parts.drift?.doubted();
      status.raise('KERNEL', messageOf(error));
      log.error({ because: messageOf(error) }, 'cannot put the bundle in; trying again');
      return undefined;
    } finally {
      this.#isChanging = false;
      this.#parts.drift?.wrote();
    }
  }

  /** What arrives while a bundle is put in: events of the directory, and a look at it now and then. */
  async #withOffers<T>(first: Tree, work: (offers: Offers) => Promise<T>): Promise<T> {
    const { inbox, status, scanIntervalMs } = this.#parts;
    let last = first;
    this.#early.begin(first.files);
    this.#news = Promise.withResolvers();
    const timer = setInterval(() => this.#news.resolve(), scanIntervalMs);
    const look: Offers['look'] = async () => {
      this.#news = Promise.withResolvers();
      status.beat();
      const arrival = await inbox.look('changed');
      // A release whose wave is shut brings nothing, endpoints included.
      if (arrival.kind !== 'bundle' || arrival.tree === last || arrival.waits) return undefined;
      last = arrival.tree;
      this.#early.offer(last.files);
      return { files: last.files, onlyEndpoints: arrival.release?.onlyEndpoints === true };
    };
    try {
      return await work({
        arrival: () => this.#news.promise,
        look,
        isEnding: () => this.#stopping || this.#orders.size > 0,
      });
    } finally {
      clearInterval(timer);
      this.#early.end();
    }
  }

  #say(outcome: Outcome): void {
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
      ? `refused: ${outcome.refusal.problems.length} problem(s), only endpoints came in`
      : describe(outcome);
    this.#sayOnce(rating[outcome.kind].level, { outcome: outcome.kind, ...problems }, message);
  }

  /** A state that lasts is logged when it begins, not at every scan. */
  #sayOnce(level: keyof Log, details: object, message: string): void {
    const said = JSON.stringify([message, details]);
    if (said !== this.#said) this.#parts.log[level](details, message);
    this.#said = said;
  }
}

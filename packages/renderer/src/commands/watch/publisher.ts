import type { Problem } from '@sluice/bundle';
import type { Change } from '../../cluster/watch/feed.ts';
import type { LiveTree, Published } from '../../emit/live-tree.ts';
import type { SluiceConfig } from '../../render/config.ts';
import type { KubeObject } from '../../render/kube.ts';
import { Memo } from '../../render/memo.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';
import { renderWithQuarantine } from '../../render/quarantine/with-quarantine.ts';
import { thingsOf } from './message.ts';
import type { Metrics } from './metrics.ts';
import { type Pace, Pacer } from './pace.ts';
import { Pending } from './pending.ts';

export interface PublisherParts {
  /** All objects as they are now, or undefined while not all are known. */
  readonly objects: () => readonly KubeObject[] | undefined;
  readonly config: SluiceConfig;
  readonly tree: LiveTree;
  /** What a file has that this process did not write. */
  readonly textOnDisk: (path: string) => string | undefined;
  readonly metrics: Metrics;
  readonly pace: Pace;
  /** The time of day and the time since some moment, in milliseconds. */
  readonly clock: { readonly now: () => number; readonly monotonic: () => number };
}

/** What others do after a publication. */
export interface PublisherEvents {
  readonly published: (publication: Publication) => void;
  /** Nothing was written: the last directory stays. */
  readonly failed: (problems: readonly Problem[]) => void;
}

export interface Publication extends Published {
  /** What changed in the cluster, such as `Service shop/web`; of the first publication of a turn, what its files are about. */
  readonly about: readonly string[];
  /** The whole bundle. */
  readonly files: ReadonlyMap<string, string>;
  /** `SLICE_WITHOUT_SERVICE`: objects that are passed over. */
  readonly passedOver: readonly Problem[];
  readonly quarantine: readonly Quarantined[];
}

/** So long after a failure the same is tried again. */
const retryMs = 5_000;

/** Keeps a directory what the cluster is: collects changes, renders what they concern, and publishes at its pace. */
export class Publisher {
  readonly #parts: PublisherParts;
  readonly #events: PublisherEvents;
  readonly #pacer: Pacer;
  readonly #memo = new Memo();
  readonly #pending = new Pending();
  #timer: NodeJS.Timeout | undefined;
  /** Tries again what failed. */
  #retry: NodeJS.Timeout | undefined;
  #isOn = false;
  #holds = 0;
  #hasPublished = false;
  /** What happened before the first publication of a turn is no latency of it. */
  #isMeasuring = false;

  constructor(parts: PublisherParts, events: PublisherEvents) {
    this.#parts = parts;
    this.#events = events;
    this.#pacer = new Pacer(parts.pace);
  }

  /** True once the directory was what the cluster is. */
  get hasPublished(): boolean {
    return this.#hasPublished;
  }

  /** True while the directory is one bundle, that of the last publication, and not half of the next or what others wrote. */
  get isWhole(): boolean {
    return this.#parts.tree.isWhole;
  }

  /** While another process writes, changes are that one's. */
  changed(change: Change): void {
    if (!this.#isOn) return;
    this.#pending.add(change);
    this.#parts.metrics.pending.set(this.#pending.size);
    this.#pacer.changed(this.#parts.clock.monotonic());
    this.#schedule();
  }

  /** Something else may have changed, such as what is known of the cluster. */
  look(): void {
    this.#pacer.changed(this.#parts.clock.monotonic());
    this.#schedule();
  }

  /** Writes from now on; the directory may be anything. */
  start(): void {
    this.#isOn = true;
    this.#isMeasuring = false;
    this.#parts.tree.forget();
    this.look();
  }

  /** Writes nothing any more. */
  stop(): void {
    this.#isOn = false;
    this.#pending.take();
    this.#parts.metrics.pending.set(0);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#endRetry();
  }

  #endRetry(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  /** Leaves the files alone until `release`. */
  hold(): void {
    this.#holds += 1;
  }

  /** @param how `changed`: somebody else wrote files meanwhile */
  release(how: 'same' | 'changed' = 'same'): void {
    this.#holds -= 1;
    if (how === 'changed') {
      this.#parts.tree.forget();
      this.look();
    }
    this.#schedule();
  }

  /** Publishes without waiting for the pace, unless it may not write now. */
  publishNow(): void {
    if (this.#isOn && this.#holds === 0) this.#publish();
  }

  #schedule(): void {
    const due = this.#pacer.dueMs;
    if (!this.#isOn || this.#holds > 0 || due === undefined || this.#timer !== undefined) return;
    const wait = Math.max(0, due - this.#parts.clock.monotonic());
    this.#timer = setTimeout(() => this.#wake(), wait);
  }

  #wake(): void {
    this.#timer = undefined;
    const due = this.#pacer.dueMs;
    if (due === undefined || !this.#isOn || this.#holds > 0) return;
    // Changes that came in between moved the moment.
    if (due > this.#parts.clock.monotonic()) this.#schedule();
    else this.#publish();
  }

  #publish(): void {
    const { objects, clock, metrics } = this.#parts;
    const change = objects();
    if (change === undefined) {
      this.#pacer.published(clock.monotonic());
      return;
    }
    const problems = this.#tryPublish(change);
    this.#pacer.published(clock.monotonic());
    this.#endRetry();
    if (problems.length === 0) return;
    metrics.failures.inc();
    this.#events.failed(problems);
    // One, however many changes fail meanwhile.
    this.#retry = setTimeout(() => this.look(), retryMs).unref();
  }

  /** @returns why nothing was written; nothing when it was */
  #tryPublish(change: readonly KubeObject[]): readonly Problem[] {
    const { config, tree, textOnDisk, metrics, clock } = this.#parts;
    const started = clock.monotonic();
    const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
    const lastText = (path: string): string | undefined => tree.text(path) ?? textOnDisk(path);
    const around = attempt('read', () => renderWithQuarantine(input, lastText, this.#memo));
    if ('code' in around) return [around];
    const { files, problems, quarantine } = around;
    const errors = problems.filter(({ level }) => level === 'error');
    if (errors.length > 0) return errors;
    const rendered = clock.monotonic();
    metrics.render.observe((rendered - started) / 1000);
    const published = attempt('write', () => tree.publish(files));
    if ('code' in published) return [published];
    metrics.write.observe((clock.monotonic() - rendered) / 1000);
    metrics.files.set(files.size);
    metrics.quarantined.set(quarantine.length);
    const passedOver = problems.filter(({ code }) => code === 'SLICE_WITHOUT_SERVICE');
    this.#done({ ...published, files, quarantine, passedOver });
    return [];
  }

  #done(published: Omit<Publication, 'about'>): void {
    const { metrics, clock } = this.#parts;
    const { written, removed } = published;
    const { about: changed, triggeredMs } = this.#pending.take();
    // At first every object of the cluster is news, whatever the directory had before.
    const about = this.#isMeasuring ? changed : thingsOf([...written, ...removed]);
    metrics.pending.set(0);
    if (written.length + removed.length > 0) metrics.publications.inc();
    metrics.lastPublication.set(clock.now() / 1000);
    if (this.#isMeasuring)
      for (const since of triggeredMs) metrics.programming.observe(Math.max(0, clock.now() - since) / 1000);
    this.#isMeasuring = true;
    this.#hasPublished = true;
    this.#events.published({ ...published, about });
  }
}

function attempt<T extends object>(what: 'read' | 'write', act: () => T): T | Problem {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    return {
      code: 'OUTPUT_UNWRITABLE',
      level: 'error',
      message: `Cannot ${what} the bundle: ${error.message}`,
      hint: 'Check the disk, who may read and write there, and how much space is left; it is tried again',
    };
  }
}

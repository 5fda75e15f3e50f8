import type { Problem } from '@sluice/netfilter';
import type { ObjectChange } from '../../cluster/watch/feed.ts';
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
  /** All current objects; undefined until every resource is listed. */
  readonly objects: () => readonly KubeObject[] | undefined;
  readonly config: SluiceConfig;
  readonly tree: LiveTree;
  /** Reads a file that this process did not write. */
  readonly textOnDisk: (path: string) => string | undefined;
  readonly metrics: Metrics;
  readonly pace: Pace;
  /** Wall-clock and monotonic time, in milliseconds. */
  readonly clock: { readonly now: () => number; readonly monotonic: () => number };
}

/** Callbacks of the publisher. */
export interface PublisherEvents {
  readonly published: (publication: Publication) => void;
  /** Nothing was written: the directory keeps the last bundle. */
  readonly failed: (problems: readonly Problem[]) => void;
}

export interface Publication extends Published {
  /** The changed objects, such as `Service shop/web`; for the first publication of a term, the objects of its files. */
  readonly about: readonly string[];
  /** The whole bundle. */
  readonly files: ReadonlyMap<string, string>;
  /** `SLICE_WITHOUT_SERVICE`: ignored objects. */
  readonly ignored: readonly Problem[];
  readonly quarantine: readonly Quarantined[];
}

/** Delay before a retry after a failure. */
const retryMs = 5_000;

/** Keeps a directory up to date with the cluster: collects changes, renders and publishes at a limited rate. */
export class Publisher {
  readonly #parts: PublisherParts;
  readonly #events: PublisherEvents;
  readonly #pacer: Pacer;
  readonly #memo = new Memo();
  readonly #pending = new Pending();
  #timer: NodeJS.Timeout | undefined;
  /** The retry after a failure. */
  #retry: NodeJS.Timeout | undefined;
  #isOn = false;
  #holds = 0;
  #hasPublished = false;
  /** False until the first publication of a term: earlier changes do not count as latency. */
  #isMeasuring = false;

  constructor(parts: PublisherParts, events: PublisherEvents) {
    this.#parts = parts;
    this.#events = events;
    this.#pacer = new Pacer(parts.pace);
  }

  /** True after the first successful publication. */
  get hasPublished(): boolean {
    return this.#hasPublished;
  }

  /** True while the directory has exactly the last publication: false after a failed one and after foreign writes. */
  get isWhole(): boolean {
    return this.#parts.tree.isWhole;
  }

  /** Records a change, unless another process writes the directory. */
  changed(change: ObjectChange): void {
    if (!this.#isOn) return;
    this.#pending.add(change);
    this.#parts.metrics.pending.set(this.#pending.size);
    this.#pacer.changed(this.#parts.clock.monotonic());
    this.#schedule();
  }

  /** Schedules a publication without a change of an object. */
  recheck(): void {
    this.#pacer.changed(this.#parts.clock.monotonic());
    this.#schedule();
  }

  /** Starts writing; the content of the directory is not known. */
  start(): void {
    this.#isOn = true;
    this.#isMeasuring = false;
    this.#parts.tree.forget();
    this.recheck();
  }

  /** Stops writing. */
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

  /** Suspends writing until `release`. */
  hold(): void {
    this.#holds += 1;
  }

  /** @param how `changed`: files were changed during the hold */
  release(how: 'same' | 'changed' = 'same'): void {
    this.#holds -= 1;
    if (how === 'changed') {
      this.#parts.tree.forget();
      this.recheck();
    }
    this.#schedule();
  }

  /** Publishes immediately, unless stopped or on hold. */
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
    // Later changes may have postponed the publication.
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
    // At most one retry is scheduled.
    this.#retry = setTimeout(() => this.recheck(), retryMs).unref();
  }

  /** @returns the reasons why nothing was written; empty after success */
  #tryPublish(change: readonly KubeObject[]): readonly Problem[] {
    const { config, tree, textOnDisk, metrics, clock } = this.#parts;
    const started = clock.monotonic();
    const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
    const lastText = (path: string): string | undefined => tree.text(path) ?? textOnDisk(path);
    const outcome = attempt('read', () => renderWithQuarantine(input, lastText, this.#memo));
    if ('code' in outcome) return [outcome];
    const { files, problems, quarantine } = outcome;
    const errors = problems.filter(({ level }) => level === 'error');
    if (errors.length > 0) return errors;
    const rendered = clock.monotonic();
    metrics.render.observe((rendered - started) / 1000);
    const published = attempt('write', () => tree.publish(files));
    if ('code' in published) return [published];
    metrics.write.observe((clock.monotonic() - rendered) / 1000);
    metrics.files.set(files.size);
    metrics.quarantined.set(quarantine.length);
    const ignored = problems.filter(({ code }) => code === 'SLICE_WITHOUT_SERVICE');
    this.#done({ ...published, files, quarantine, ignored });
    return [];
  }

  #done(published: Omit<Publication, 'about'>): void {
    const { metrics, clock } = this.#parts;
    const { written, removed } = published;
    const { about: changed, triggeredMs } = this.#pending.take();
    // At first every object counts as changed, whatever the directory had before.
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
      hint: 'Check the disk, its permissions and the free space; sluice retries automatically',
    };
  }
}

import type { Problem } from '@sluice/netfilter';
import type { ObjectChange } from '../../cluster/watch/feed.ts';
import type { LiveTree, Published } from '../../emit/live-tree.ts';
import type { SluiceConfig } from '../../render/model/config.ts';
import type { KubeObject } from '../../render/model/kube.ts';
import { LiveRender } from '../../render/incremental/live-render.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';
import { thingsOf } from './message.ts';
import type { Metrics } from './metrics.ts';
import { Pending } from './pending.ts';

/** Wall-clock and monotonic time, in milliseconds. */
export interface Clock {
  readonly now: () => number;
  readonly monotonic: () => number;
}

interface PublisherParts {
  readonly config: SluiceConfig;
  readonly tree: LiveTree;
  /** Reads a file that this process did not write. */
  readonly textOnDisk: (path: string) => string | undefined;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Called after each publication; `isWhole`: everything was rendered. */
  readonly published?: (isWhole: boolean) => void;
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

/** Nothing was written: the directory keeps the last bundle. */
export interface Unpublished {
  readonly problems: readonly Problem[];
}

/** Renders a cluster and writes the directory, one publication for each call. */
export class Publisher {
  readonly #parts: PublisherParts;
  readonly #live: LiveRender;
  readonly #pending = new Pending();
  #isOn = false;
  /** False until the first publication of a term: earlier changes do not count as latency. */
  #isMeasuring = false;

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    this.#live = new LiveRender(parts.config);
  }

  /** True while the directory has exactly the last publication: false after a failed one and after foreign writes. */
  get isWhole(): boolean {
    return this.#parts.tree.isWhole;
  }

  /** Records a change. @returns false while another process writes the directory */
  changed(change: ObjectChange): boolean {
    if (!this.#isOn) return false;
    this.#pending.add(change);
    this.#parts.metrics.pending.set(this.#pending.size);
    return true;
  }

  /** Starts a term of writing; the content of the directory is not known. */
  start(): void {
    this.#isOn = true;
    this.#isMeasuring = false;
    this.forget();
  }

  /** Ends the term. */
  stop(): void {
    this.#isOn = false;
    this.#pending.take();
    this.#parts.metrics.pending.set(0);
  }

  /** Files may have been changed: the next publication compares all of them. */
  forget(): void {
    this.#parts.tree.forget();
  }

  /** Renders all objects and writes the changed files. @param objects as for `LiveRender` */
  publish(objects: ReadonlyMap<string, KubeObject>): Publication | Unpublished {
    const { tree, textOnDisk, metrics, clock } = this.#parts;
    const started = clock.monotonic();
    const lastText = (path: string): string | undefined => tree.text(path) ?? textOnDisk(path);
    const outcome = attempt('read', () => this.#live.render(objects, lastText));
    if ('code' in outcome) return this.#failed([outcome]);
    const { files, errors, ignored, quarantine } = outcome;
    if (errors.length > 0) return this.#failed(errors);
    const rendered = clock.monotonic();
    metrics.render.observe((rendered - started) / 1000);
    const published = attempt('write', () => tree.publish(files));
    if ('code' in published) return this.#failed([published]);
    metrics.write.observe((clock.monotonic() - rendered) / 1000);
    metrics.files.set(files.size);
    metrics.quarantined.set(quarantine.length);
    const about = this.#measured(published);
    this.#parts.published?.(!outcome.isPart);
    return { ...published, about, files, quarantine, ignored };
  }

  #failed(problems: readonly Problem[]): Unpublished {
    this.#parts.metrics.failures.inc();
    return { problems };
  }

  /** @returns the changed objects */
  #measured({ written, removed }: Published): readonly string[] {
    const { metrics, clock } = this.#parts;
    const { about: changed, triggeredMs } = this.#pending.take();
    // At first every object counts as changed, whatever the directory had before.
    const about = this.#isMeasuring ? changed : thingsOf([...written, ...removed]);
    metrics.pending.set(0);
    if (written.length + removed.length > 0) metrics.publications.inc();
    metrics.lastPublication.set(clock.now() / 1000);
    if (this.#isMeasuring)
      for (const since of triggeredMs) metrics.programming.observe(Math.max(0, clock.now() - since) / 1000);
    this.#isMeasuring = true;
    return about;
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

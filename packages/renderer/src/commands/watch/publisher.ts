import { Layered, printRemoval, type Problem, type RemovalBound, refusal } from '@sluice/netfilter';
import type { ObjectChange } from '../../cluster/watch/feed.ts';
import type { LiveTree, Published } from '../../emit/live-tree.ts';
import type { LiveRender } from '../../render/incremental/live-render.ts';
import type { KubeObject } from '../../render/model/kube.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';
import { type BundleRemoval, RemovalFinder } from '../../removal/removal.ts';
import { thingsOf } from './message.ts';
import type { Metrics } from './metrics.ts';

/** Wall-clock and monotonic time, in milliseconds. */
interface Clock {
  readonly now: () => number;
  readonly monotonic: () => number;
}

interface PublisherParts {
  /** What renders. */
  readonly live: Pick<LiveRender, 'render'>;
  readonly tree: LiveTree;
  /** Reads a file that this process did not write. */
  readonly textOnDisk: (path: string) => string | undefined;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** The files of the directory, which this process did not write; undefined: it has no bundle. */
  readonly filesOnDisk?: () => ReadonlyMap<string, string> | undefined;
  /** Which removals are held; left out: none. */
  readonly removals?: RemovalRules;
  /** Called after each publication; `isWhole`: everything was rendered. */
  readonly published?: (isWhole: boolean) => void;
}

/** Which removals are held, and for how long. */
export interface RemovalRules extends RemovalBound {
  /** How long the cluster must have lacked the Services, in milliseconds; 0: none is held. */
  readonly holdMs: number;
  /** An operator said that the first publication may be one. */
  readonly isMeant: boolean;
  /** Whether a reviewed release took a Service away, such as `shop/web`: no list of a server says so. */
  readonly isTakenAway?: (service: string) => boolean;
}

export interface Publication extends Published {
  /** The changed objects, such as `Service shop/web`; for the first publication of a term, the objects of its files. */
  readonly about: readonly string[];
  /** The whole bundle. */
  readonly files: ReadonlyMap<string, string>;
  /** `SLICE_WITHOUT_SERVICE`: ignored objects. */
  readonly ignored: readonly Problem[];
  readonly quarantine: readonly Quarantined[];
  /** `REMOVAL_HELD`: Services without endpoints have their files of before. */
  readonly held?: Problem;
}

/** Nothing was written: the directory keeps the last bundle. */
export interface Unpublished {
  readonly problems: readonly Problem[];
  /** A removal is held: rendering works. */
  readonly held?: Problem;
}

/** Renders a cluster and writes the directory, one publication for each call. */
export class Publisher {
  readonly #parts: PublisherParts;
  readonly #pending = new Pending();
  #isOn = false;
  readonly #removals = new RemovalFinder();
  /** Services, such as `shop/web`, that the server told to be deleted since: no list that lacks most of them is behind that. */
  readonly #deleted = new Set<string>();
  /** Since when the cluster lacks most Services. */
  #heldSince: { readonly ms: number; readonly nowMs: number } | undefined;
  /** The directory that another process wrote, while a removal from it is held. */
  #onDisk: ReadonlyMap<string, string> | undefined;
  #isMeant: boolean;
  /** False until the first publication of a term: earlier changes do not count as latency. */
  #isMeasuring = false;

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    this.#isMeant = parts.removals?.isMeant === true;
  }

  /** True while the directory has exactly the last publication: false after a failed one and after foreign writes. */
  get isWhole(): boolean {
    return this.#parts.tree.isWhole;
  }

  /** Records a change. @returns false while another process writes the directory */
  changed(change: ObjectChange): boolean {
    if (!this.#isOn) return false;
    this.#pending.add(change);
    const service = change.isEndpoints ? '' : change.about.replace(/^Service /, '');
    if (change.isDeleted !== true) this.#deleted.delete(service);
    else if (this.#deleted.size < pendingMax) this.#deleted.add(service);
    this.#parts.metrics.pending.set(this.#pending.size);
    return true;
  }

  /** Starts a term of writing; the content of the directory is not known. */
  start(): void {
    this.#isOn = true;
    this.#isMeasuring = false;
    this.#heldSince = undefined;
    this.#deleted.clear();
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
    this.#onDisk = undefined;
  }

  /** Renders all objects and writes the changed files. @param objects as for `LiveRender` */
  publish(objects: ReadonlyMap<string, KubeObject>): Publication | Unpublished {
    const { tree, textOnDisk, metrics, clock } = this.#parts;
    const started = clock.monotonic();
    const lastText = (path: string): string | undefined => tree.text(path) ?? textOnDisk(path);
    const outcome = attempt('read', () => this.#parts.live.render(objects, lastText));
    if ('code' in outcome) return this.#failed([outcome]);
    const { files, errors, ignored, quarantine } = outcome;
    if (errors.length > 0) return this.#failed(errors);
    const rendered = clock.monotonic();
    metrics.render.observe((rendered - started) / 1000);
    const removal = attempt('read', () => ({ found: this.#removal(files) }));
    if ('code' in removal) return this.#failed([removal]);
    const held = removal.found && removalHeld(removal.found, this.#heldSince?.nowMs ?? 0, this.#parts.removals);
    metrics.removalHeld.set(held ? 1 : 0);
    if (held && !removal.found?.kept) return { problems: [], held };
    const allowed = removal.found?.kept ? Layered.of(files).with(removal.found.kept) : files;
    const published = attempt('write', () => tree.publish(allowed));
    if ('code' in published) return this.#failed([published]);
    this.#isMeant = false;
    this.#deleted.clear();
    this.#onDisk = undefined;
    // A removal that has stood is over with that: the next one is held as long.
    if (!held) this.#heldSince = undefined;
    metrics.write.observe((clock.monotonic() - rendered) / 1000);
    metrics.files.set(files.size);
    metrics.quarantined.set(quarantine.length);
    const about = this.#measured(published);
    this.#parts.published?.(!outcome.isPart);
    return { ...published, about, files: allowed, quarantine, ignored, ...(held ? { held } : {}) };
  }

  /** @returns what must not be taken away yet */
  #removal(files: ReadonlyMap<string, string>): BundleRemoval | undefined {
    const { tree, filesOnDisk, removals, clock } = this.#parts;
    if (!removals || removals.holdMs === 0 || this.#isMeant) return undefined;
    const before = tree.files ?? this.#onDisk ?? filesOnDisk?.();
    const isMeant = (service: string): boolean =>
      this.#deleted.has(service) || removals.isTakenAway?.(service) === true;
    const found = before && this.#removals.find(before, files, removals, isMeant);
    if (!before || !found) {
      this.#removals.forget();
      this.#heldSince = undefined;
      return undefined;
    }
    this.#heldSince ??= { ms: clock.monotonic(), nowMs: clock.now() };
    if (clock.monotonic() - this.#heldSince.ms >= removals.holdMs) return undefined;
    // It is compared again at each change.
    if (before !== tree.files) this.#onDisk = this.#onDisk ?? new Map(before);
    return found;
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
    return refusal(
      'OUTPUT_UNWRITABLE',
      `Cannot ${what} the bundle: ${error.message}`,
      'Check the disk, its permissions and the free space; sluice retries automatically',
    );
  }
}

function removalHeld(removal: BundleRemoval, sinceMs: number, rules: RemovalRules | undefined): Problem {
  const until = new Date(sinceMs + (rules?.holdMs ?? 0)).toISOString().replace(/\.\d+Z$/, 'Z');
  return refusal(
    'REMOVAL_HELD',
    `Cannot take away ${printRemoval(removal, 'Services')}, yet: held until ${until}, their files stay as they are`,
    'Find out whether this is the right cluster, whether it was restored, and what the account may list. If the removal is meant, start `sluice watch` with --accept-removal',
  );
}

/** Bound of memory while nothing can be published: messages name 200 objects, and the oldest times suffice for the latency. */
const pendingMax = 10_000;

/** The changes of the cluster that are not published yet. */
class Pending {
  readonly #about = new Set<string>();
  #triggeredMs: number[] = [];

  /** The number of changed objects. */
  get size(): number {
    return this.#about.size;
  }

  add({ about, triggeredMs }: ObjectChange): void {
    if (this.#about.size < pendingMax) this.#about.add(about);
    if (triggeredMs !== undefined && this.#triggeredMs.length < pendingMax) this.#triggeredMs.push(triggeredMs);
  }

  /** Returns and clears all pending changes. */
  take(): { readonly about: readonly string[]; readonly triggeredMs: readonly number[] } {
    const taken = { about: [...this.#about], triggeredMs: this.#triggeredMs };
    this.#about.clear();
    this.#triggeredMs = [];
    return taken;
  }
}

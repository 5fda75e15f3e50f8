import { type BundleFiles, quarantineFile, readQuarantine } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Extent, Tree } from '../inbox/files.ts';
import type { ArrivedBundle, Arrival, Inbox } from '../inbox/inbox.ts';
import type { LiveEndpoints } from '../apply/reconcile/live-endpoints.ts';

interface LiveInboxParts {
  readonly released: Pick<Inbox, 'look' | 'lookInSteps' | 'wasWhole'>;
  /** The directory with live endpoints. */
  readonly live: Pick<Inbox, 'look'>;
  readonly endpointsOf: (release: BundleFiles) => Pick<LiveEndpoints, 'with'>;
  /** Whether the node has a generation of Sluice, with the endpoints of its last moment. */
  readonly hasRules: () => boolean;
  readonly monotonicMs: () => number;
  /** How long the writer of live endpoints may take to write for a new release, or to complete what it has begun. */
  readonly waitMs: number;
}

/** A release, and what its endpoints are made with. */
interface Followed {
  bundle: ArrivedBundle;
  readonly endpoints: Pick<LiveEndpoints, 'with'>;
  readonly sinceMs: number;
  last?: { readonly files: BundleFiles; readonly tree: Tree };
}

/** A release with live endpoints. */
interface Composed {
  readonly bundle: ArrivedBundle;
  readonly declined: ReadonlyMap<string, string>;
}

/**
 * The bundle directory, whose releases get the endpoints of another directory: what arrives is the release with its live endpoints. While a
 * newer release may not be applied, the one before it goes on.
 */
export class LiveInbox {
  readonly #parts: LiveInboxParts;
  /** The last complete bundle with live endpoints: its writer takes it away for a moment with each change. */
  #live: Tree | undefined;
  /** The release in the directory, and the last one that could be applied. */
  #newest: Followed | undefined;
  #applicable: Followed | undefined;
  /** Since when the directory of live endpoints cannot be read. */
  #unreadSinceMs: number | undefined;
  /** The last `quarantine.yaml` of live endpoints, with the Services of the cluster that the release lacks. */
  #unknown: { readonly text: string; readonly services: readonly string[] } = { text: '', services: [] };

  constructor(parts: LiveInboxParts) {
    this.#parts = parts;
  }

  get wasWhole(): boolean {
    return this.#parts.released.wasWhole;
  }

  /** @see Inbox.look */
  async look(extent: Extent = 'whole'): Promise<Arrival> {
    return this.#compose(await this.#parts.released.look(extent), extent);
  }

  /** @see Inbox.lookInSteps */
  async lookInSteps(interrupt: AbortSignal): Promise<Arrival | 'interrupted'> {
    const arrival = await this.#parts.released.lookInSteps(interrupt);
    return arrival === 'interrupted' ? arrival : this.#compose(arrival, 'whole');
  }

  async #compose(arrival: Arrival, extent: Extent): Promise<Arrival> {
    const found = await this.#parts.live.look(extent);
    const unread = this.#judge(found);
    const composed = this.#composeWith(arrival, found);
    if (!unread) return composed;
    const notes = [composed.note ?? [], `live endpoints are not read, and stay as they were: ${unread.why}`].flat();
    return { ...composed, note: notes.join('; '), ...(found.kind === 'refused' && { unreadLive: unread }) };
  }

  /** @returns why live endpoints cannot be read; undefined while they can, or their writer is at work */
  #judge(found: Arrival): Arrival['unreadLive'] {
    const nowMs = this.#parts.monotonicMs();
    if (found.kind === 'bundle') {
      this.#take(found.tree);
      this.#unreadSinceMs = undefined;
      return undefined;
    }
    const sinceMs = (this.#unreadSinceMs ??= nowMs);
    return nowMs - sinceMs < this.#parts.waitMs ? undefined : { why: whyUnread(found), sinceMs };
  }

  #composeWith(arrival: Arrival, found: Arrival): Arrival {
    const newest = arrival.kind === 'bundle' ? this.#follow(arrival) : undefined;
    const composed = newest && this.#with(newest);
    if (!newest || !composed || newest.bundle.waits) return this.#withMeanwhile(arrival, newest, composed, found);
    const { bundle, declined } = composed;
    const isNew = this.#applicable?.bundle.tree !== newest.bundle.tree;
    // The writer of live endpoints gets to know a release as this program does, and writes for it next.
    const isEarly = isNew && this.#parts.monotonicMs() - newest.sinceMs < this.#parts.waitMs;
    if (declined.size > 0 && isEarly && this.#parts.hasRules())
      return this.#withMeanwhile(arrival, newest, undefined, found);
    this.#applicable = newest;
    return { ...bundle, ...this.#noteOf(declined) };
  }

  #take(live: Tree): void {
    this.#live = live;
    const text = live.files.get(quarantineFile) ?? '';
    if (text === this.#unknown.text) return;
    const leftOut = [...readQuarantine(text)];
    const services = leftOut.flatMap(([name, codes]) => (codes.includes('RELEASE_WITHOUT_SERVICE') ? [name] : []));
    this.#unknown = { text, services };
  }

  #noteOf(declined: ReadonlyMap<string, string>): { readonly note?: string } {
    const reasons = [...declined].map(([service, why]) => `${service}: ${why}`);
    const notes = [
      ...named('live endpoints are not taken of ', reasons),
      ...named('Services of the cluster are not in its release and not served: ', this.#unknown.services),
    ];
    return notes.length === 0 ? {} : { note: notes.join('; ') };
  }

  /** What arrives while the newest release, if any, may not be applied. */
  #withMeanwhile(
    arrival: Arrival,
    newest: Followed | undefined,
    composed: Composed | undefined,
    found: Arrival,
  ): Arrival {
    const before = this.#applicable && this.#applicable !== newest ? this.#with(this.#applicable) : undefined;
    const early = newest?.bundle.waits && composed ? onlyEarly(composed) : undefined;
    const going = before ?? early;
    const meanwhile = going ? { meanwhile: going.bundle, ...this.#noteOf(going.declined) } : {};
    if (arrival.kind !== 'bundle') return { ...arrival, ...meanwhile };
    if (composed) return { ...composed.bundle, ...meanwhile };
    // A node without any rules is better served by endpoints that are out of date.
    if (!this.#live && !this.#parts.hasRules()) return arrival;
    return { kind: 'refused', problems: [withoutLive(this.#live !== undefined, found)], ...meanwhile };
  }

  #follow(bundle: ArrivedBundle): Followed {
    const known = [this.#newest, this.#applicable].find((one) => one?.bundle.tree === bundle.tree);
    const endpoints = known?.endpoints ?? this.#parts.endpointsOf(bundle.tree.files);
    const followed = known ?? { bundle, endpoints, sinceMs: this.#parts.monotonicMs() };
    followed.bundle = bundle;
    this.#newest = followed;
    return followed;
  }

  /** @returns undefined before there are live endpoints */
  #with(followed: Followed): Composed | undefined {
    if (!this.#live) return undefined;
    const { bundle, endpoints } = followed;
    const { files, version, declined } = endpoints.with(this.#live.files);
    // A release that this node refuses is refused as it came.
    if (version === undefined) return { bundle, declined };
    const released = bundle.tree;
    if (followed.last?.files !== files) followed.last = { files, tree: { ...released, files } };
    return { bundle: { ...bundle, tree: followed.last.tree, live: { released, version } }, declined };
  }
}

/** A release that waits, for a node that does not know the files of the one before it: after a restart. */
function onlyEarly({ bundle, declined }: Composed): Composed {
  const { waits: _waits, live, ...rest } = bundle;
  return { bundle: { ...rest, ...(live ? { live: { ...live, onlyEarly: true as const } } : {}) }, declined };
}

/** How many Services a note names. */
const namedMax = 5;

/** A sentence about some Services, if there are any. */
function named(what: string, services: readonly string[]): readonly string[] {
  if (services.length === 0) return [];
  const more = services.length > namedMax ? `; ${services.length - namedMax} more` : '';
  return [`${what}${services.slice(0, namedMax).join('; ')}${more}`];
}

function withoutLive(isThere: boolean, found: Arrival): Problem {
  return refusal(
    'BUNDLE_INCOMPLETE',
    `Cannot take the release yet: ${isThere ? 'its live endpoints are still those of another release' : whyUnread(found)}`,
    'Look whether `sluice watch --release` runs on this node and what it logs; the rules stay as they are',
  );
}

const whyUnread = (found: Arrival): string =>
  (found.kind === 'refused' && found.problems[0]?.message) || 'the directory of endpoints.live does not exist';

import { type BundleFiles, changedFiles, serviceOf, withFilesOf } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { liveLimits } from '../../limits.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { admit, type AdmittedBundle, AdmitMemory, type AdmitOptions, isRefusal } from '../admission/admit.ts';
import { EndpointAddresses } from '../admission/endpoint-addresses.ts';
import { differsByEndpoints } from '../endpoints/change-kind.ts';
import { networksOf, refuseOutside } from '../endpoints/endpoint-networks.ts';

/** A release with live endpoints. */
export interface WithLive {
  /** The same value as before when nothing changed. */
  readonly files: BundleFiles;
  /** Of the release itself for this node; undefined: it is refused, so its files are as they came. */
  readonly version: string | undefined;
  /** Services whose live endpoints were not taken, with the reason, sorted by name: they keep those of before, or of the release. */
  readonly declined: ReadonlyMap<string, string>;
}

/** A Service with those of its files that differ. */
type Candidate = readonly [service: string, paths: readonly string[]];

/** What is remembered of bundles, by all releases. */
export class LiveMemory {
  readonly admitted = new AdmitMemory();
  readonly addresses = new EndpointAddresses();
}

/**
 * One release with endpoints from another bundle, which has no signature. Of that bundle only Services of the release are taken, and each only
 * if it differs from the release by endpoints alone, at addresses that keys for endpoints may use: the ranges of the profile and of the
 * node's config, and the Nodes of the release. A Service that is not taken stops no other.
 */
export class LiveEndpoints {
  readonly #release: BundleFiles;
  readonly #options: AdmitOptions;
  readonly #facts: () => NodeFacts;
  readonly #memory: LiveMemory;
  readonly #services: ReadonlySet<string>;
  readonly #networks: readonly string[];
  #last: { readonly live: BundleFiles; readonly result: WithLive } | undefined;

  constructor(release: BundleFiles, options: AdmitOptions, facts: () => NodeFacts, memory: LiveMemory) {
    this.#release = release;
    this.#options = options;
    this.#facts = facts;
    this.#memory = memory;
    this.#services = new Set([...release.keys()].map(serviceOf));
    this.#networks = networksOf(release);
  }

  /** @param live files of a bundle of this node */
  with(live: BundleFiles): WithLive {
    const last = this.#last;
    if (last?.live === live) return last.result;
    const base = this.#admit(this.#release);
    if (isRefusal(base)) return { files: this.#release, version: undefined, declined: new Map() };
    const declined = new Map(last?.result.declined);
    const candidates = this.#candidates(last?.live ?? this.#release, live);
    for (const [service] of candidates) declined.delete(service);
    const taken = this.#taken(base, live, candidates, declined);
    const paths = taken.flatMap(([, its]) => its);
    const before = last?.result.files ?? this.#release;
    const files = paths.length === 0 ? before : withFilesOf(before, live, paths);
    const sorted = new Map([...declined].toSorted(([a], [b]) => compareText(a, b)));
    const result = { files, version: base.version, declined: sorted };
    this.#last = { live, result };
    return result;
  }

  /** Services of the release whose files differ. One that the live bundle lacks keeps its files. */
  #candidates(before: BundleFiles, live: BundleFiles): readonly Candidate[] {
    const byService = Map.groupBy(changedFiles(before, live), serviceOf);
    return [...byService].flatMap(([service, changed]) => {
      if (service === '' || !this.#services.has(service) || !changed.some((path) => live.has(path))) return [];
      return [[service, changed] as const];
    });
  }

  /** Those of some Services that may be taken: all at once, or each half by itself, down to single ones. */
  #taken(
    base: AdmittedBundle,
    live: BundleFiles,
    some: readonly Candidate[],
    declined: Map<string, string>,
  ): readonly Candidate[] {
    const [first] = some;
    if (!first) return [];
    // A bundle in which everything is wrong must not take a judgement of each Service.
    const why =
      declined.size < liveLimits.declinedMax ? this.#refuse(base, live, some) : 'too many others were declined';
    if (why === undefined) return some;
    if (some.length === 1 || declined.size >= liveLimits.declinedMax) {
      for (const [service] of some) declined.set(service, why);
      return [];
    }
    const half = some.length >> 1;
    return [some.slice(0, half), some.slice(half)].flatMap((part) => this.#taken(base, live, part, declined));
  }

  /** @returns why the release with the live files of these Services may not go in */
  #refuse(base: AdmittedBundle, live: BundleFiles, some: readonly Candidate[]): string | undefined {
    const paths = some.flatMap(([, its]) => its);
    const bundle = this.#admit(withFilesOf(this.#release, live, paths));
    if (isRefusal(bundle)) return bundle.problems[0]?.message;
    const [forbidden] = this.#memory.addresses.check(bundle.state);
    if (forbidden) return forbidden.message;
    const outside = refuseOutside(base.state, bundle.state, this.#networks);
    if (outside) return outside.problems[0]?.message;
    return differsByEndpoints(base.state, bundle.state)
      ? undefined
      : 'its rules differ from the release by more than endpoints';
  }

  #admit(files: BundleFiles): ReturnType<typeof admit> {
    return admit(files, this.#options, this.#facts(), this.#memory.admitted);
  }
}

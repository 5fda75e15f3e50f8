import { type BundleFiles, changedFiles, readPath } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Arrival } from '../inbox/inbox.ts';
import { limits } from '../limits.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Refusal } from '../ports/refusal.ts';
import type { DaemonDependencies } from './dependencies.ts';

type LatenessDependencies = Pick<
  DaemonDependencies,
  'status' | 'monotonicMs' | 'releaseWaitMsMax' | 'lateMsMax' | 'liveLateMsMax'
>;

/**
 * Decides whether the kernel has lacked what the directory has for too long, which makes the node unhealthy: it serves other Services than it
 * should.
 */
export class Lateness {
  readonly #parts: LatenessDependencies;
  /** Since when a limit of this node delays releases. */
  #delayedSinceMs: number | undefined;
  /** Since when the kernel has not had what the directory has. */
  #lateSinceMs: number | undefined;
  /** The last bundle that the kernel took. */
  #taken: BundleFiles | undefined;
  /** The directory of live endpoints cannot be read. */
  #isLiveLate = false;

  constructor(parts: LatenessDependencies) {
    this.#parts = parts;
  }

  /** The kernel has this bundle. */
  isIn(files: BundleFiles): void {
    this.#taken = files;
    this.#lateSinceMs = undefined;
    if (!this.#isLiveLate) this.#parts.status.clear('SERVICES_LATE');
  }

  /** What is known of live endpoints, which also age where releases wait for a review. */
  live(unread: Arrival['unreadLive']): void {
    const { status, monotonicMs, liveLateMsMax = Infinity } = this.#parts;
    const lateMs = unread ? monotonicMs() - unread.sinceMs : 0;
    const wasLate = this.#isLiveLate;
    this.#isLiveLate = unread !== undefined && lateMs >= liveLateMsMax;
    if (this.#isLiveLate)
      status.raise('SERVICES_LATE', `Live endpoints are not read: ${unread?.why}; for ${Math.round(lateMs / 1000)} s`);
    else if (wasLate && !this.#isBundleLate) status.clear('SERVICES_LATE');
  }

  /**
   * Judges an attempt to apply a bundle.
   * @param outcome undefined: it could not be tried, which ends no delay
   * @param sinceMs when the attempt began
   */
  judge(files: BundleFiles, outcome: Outcome | undefined, sinceMs: number): void {
    this.#judgeDelay(outcome, sinceMs);
    if (outcome?.kind === 'same' || outcome?.kind === 'confirmed') return this.isIn(files);
    const problem = outcome?.kind === 'refused' ? outcome.refusal.problems[0] : undefined;
    // What else the bundle has goes in meanwhile, and a load balancer must not take out all nodes.
    if (problem?.code === 'REMOVAL_HELD') return;
    this.#late(sinceMs, () => `The kernel lacks ${this.#lacking(files)}${problem ? `: ${problem.message}` : ''}`);
  }

  /** The directory holds no bundle that can be read. */
  unread(problem: Problem | undefined, sinceMs: number): void {
    this.#late(sinceMs, () => `The kernel lacks what the bundle directory has: ${problem?.message ?? 'unreadable'}`);
  }

  get #lateMs(): number {
    return this.#parts.monotonicMs() - (this.#lateSinceMs ?? Infinity);
  }

  get #isBundleLate(): boolean {
    return this.#lateMs >= (this.#parts.lateMsMax ?? Infinity);
  }

  #late(sinceMs: number, words: () => string): void {
    this.#lateSinceMs ??= sinceMs;
    if (!this.#isBundleLate) return;
    this.#parts.status.raise('SERVICES_LATE', `${words()}; for ${Math.round(this.#lateMs / 1000)} s`);
  }

  /** The Services of a bundle that are new or other than in the last one that the kernel took. */
  #lacking(files: BundleFiles): string {
    const changed = this.#taken ? changedFiles(this.#taken, files) : [...files.keys()];
    const names = changed.flatMap((path) => {
      const what = files.has(path) ? readPath(path) : undefined;
      return what?.kind === 'service' ? [`${what.namespace}/${what.name}`] : [];
    });
    const all = [...new Set(names)].toSorted();
    const more = all.length - limits.servicesNamedMax;
    const shown = all.slice(0, limits.servicesNamedMax).join(', ');
    if (all.length === 0) return 'the newest bundle';
    return `Services ${shown}${more > 0 ? ` and ${more} more` : ''}`;
  }

  /** Unhealthy once the node delays releases for too long, the newest or those that it replaced. */
  #judgeDelay(outcome: Outcome | undefined, sinceMs: number): void {
    const { status, monotonicMs, releaseWaitMsMax = limits.releaseWaitMs } = this.#parts;
    if (outcome === undefined) return;
    const delaying = outcome.kind === 'refused' ? delayOf(outcome.refusal) : undefined;
    this.#delayedSinceMs = delaying && (this.#delayedSinceMs ?? sinceMs);
    if (this.#delayedSinceMs === undefined || monotonicMs() - this.#delayedSinceMs < releaseWaitMsMax) return;
    status.raise('RELEASE_DELAYED', delaying?.message ?? '');
  }
}

/** What of this node, and not of the release, keeps it out. */
const delayOf = ({ problems, isWaiting }: Refusal): Problem | undefined =>
  problems.find(({ code }) => isWaiting || code === 'NODE_CANNOT_REHEARSE' || code === 'NODE_RULES_UNSTEADY');

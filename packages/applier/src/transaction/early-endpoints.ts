import type { BundleFiles } from '@sluice/bundle';
import { type AdmittedBundle, isRefusal } from '../rollout/admit.ts';
import type { Outcome } from '../rollout/outcome.ts';
import type { Generation, Ports, Refusal } from '../rollout/ports.ts';
import { mayGetFirstEndpoint, ActiveFiles } from './active-files.ts';
import { overlayEndpoints } from './overlay-endpoints.ts';
import { changeKindOf } from './change-kind.ts';
import type { Change, Ending, Target } from './transaction.ts';
import { stepsOf } from './way.ts';

/** What a reconciler does for whoever brings endpoints. */
export interface EarlyEndpointsParts {
  readonly journal: Ports['journal'];
  readonly declined: Ports['declined'];
  admit(files: BundleFiles): Promise<AdmittedBundle | Refusal>;
  decide(bundle: Target): Promise<Change | Refusal>;
  /** Carries a change out, as an update of endpoints. */
  carryOut(change: Change): Promise<Ending>;
}

/**
 * Brings to what stands what may come of a bundle before the rest of it: endpoints, while a release has to be tried or must wait, and all
 * of a bundle but the Services that have to wait for their last endpoint.
 */
export class EarlyEndpoints {
  readonly #reconciler: EarlyEndpointsParts;
  readonly #files = new ActiveFiles();
  /** The version whose endpoints the kernel did not take. */
  #declined: string | undefined;
  /** Of which version for which generation no first endpoint could be brought, or nothing around what waits. */
  readonly #fruitless = { first: '', around: '' };

  constructor(reconciler: EarlyEndpointsParts) {
    this.#reconciler = reconciler;
  }

  /** What stands now was made from these files, and from nothing else. */
  activated(files: BundleFiles, generation: Generation): void {
    this.#files.activate(files, generation);
  }

  /** The same for how a change ended. During a trial endpoints of another bundle may have come: then it is not known which files stand. */
  learn(files: BundleFiles, { state }: Target, { outcome }: Ending): void {
    if (outcome.kind === 'confirmed' && outcome.generation.state === state)
      this.#files.activate(files, outcome.generation);
  }

  /**
   * Brings the newest endpoints of a release to what stands, before the release is tried and also when it must wait: if it is taken
   * back, they stay.
   * @returns how that ended; undefined when it brings none
   */
  async endpoints(bundle: Target): Promise<Outcome | undefined> {
    const active = this.#active();
    if (!active || this.#declined === bundle.version) return undefined;
    const state = overlayEndpoints(active.state, bundle.state, { declined: this.#reconciler.declined.read() });
    if (state === active.state || changeKindOf(active.state, bundle.state) === 'endpoints') return undefined;
    const change = await this.#reconciler.decide({ version: active.version, state });
    if ('problems' in change || change.changeKind !== 'endpoints') return undefined;
    const ending = await this.#reconciler.carryOut(change);
    if (isDeclined(ending)) this.#declined = bundle.version;
    return ending.outcome;
  }

  /**
   * Brings all of a bundle but the Services that have to wait for their last endpoint, which stay as they stand.
   * @param version that of the bundle
   * @param pending the ways into these
   * @returns how that ended, when the kernel took it; undefined when none has to wait, or all of it can only go in together
   */
  async withoutPending(
    offered: BundleFiles,
    version: string,
    pending: readonly string[],
  ): Promise<Outcome | undefined> {
    const active = this.#active();
    const attempt = `${attemptAt(version, active)} ${pending.join()}`;
    if (!active || pending.length === 0 || this.#fruitless.around === attempt) return undefined;
    const files = this.#files.withoutPending(offered, pending, active);
    if (!files) return undefined;
    const found = await this.#part(files, active);
    if (!found || found.change.last?.some((way) => pending.includes(way))) return undefined;
    if (stepsOf(found.change.way).length === 0) return { kind: 'same', generation: active };
    return this.#carryOut(files, found, () => void (this.#fruitless.around = attempt));
  }

  /**
   * Brings the first endpoints of a release to Services that stand, which wait neither for its trial nor for what holds it up. Together
   * with what else changed in the endpoints of these, but for last ones.
   * @param bundle the release, from these files
   * @returns how that ended, when the kernel took it; undefined when it brings none, or more changes with them
   */
  async firstEndpoints(offered: BundleFiles, { version, state }: Target): Promise<Outcome | undefined> {
    const active = this.#active();
    const attempt = attemptAt(version, active);
    if (!active || this.#fruitless.first === attempt) return undefined;
    const files = this.#files.withServicesOf(offered, active, mayGetFirstEndpoint(active.state, state));
    if (!files) return undefined;
    const all = await this.#part(files, active);
    const last = all?.change.last ?? [];
    const others = last.length === 0 ? files : this.#files.withoutPending(files, last, active);
    const found = others === files ? all : others && (await this.#part(others, active));
    const { first = [], last: left = [] } = found?.change ?? {};
    const giveUp = (): void => void (this.#fruitless.first = attempt);
    if (others && found && first.length > 0 && left.length === 0) return this.#carryOut(others, found, giveUp);
    giveUp();
    return undefined;
  }

  #active(): Generation | undefined {
    const { active } = this.#reconciler.journal;
    // What was there before Sluice stays as it was.
    return active?.number === 0 ? undefined : active;
  }

  /** What these files mean for what stands; undefined when that is more than endpoints, or when they are out of date. */
  async #part(files: BundleFiles, active: Generation): Promise<Part | undefined> {
    const bundle = await this.#reconciler.admit(files);
    if (isRefusal(bundle) || this.#files.wouldRevert(bundle.state, active)) return undefined;
    const target = { version: active.version, state: bundle.state };
    const change = await this.#reconciler.decide(target);
    return 'problems' in change || change.changeKind !== 'endpoints' ? undefined : { target, change };
  }

  /** @param giveUp called when the kernel would not take it another time either: a try leaves its trace in the journal */
  async #carryOut(files: BundleFiles, { target, change }: Part, giveUp: () => void): Promise<Outcome | undefined> {
    const ending = await this.#reconciler.carryOut(change);
    this.learn(files, target, ending);
    if (isDeclined(ending)) giveUp();
    const { outcome } = ending;
    return outcome.kind === 'confirmed' || outcome.kind === 'held' ? outcome : undefined;
  }
}

const attemptAt = (version: string, active: Generation | undefined): string =>
  `${version} ${active?.number} ${active?.revision}`;

/** Whether a change was tried, or its rules were, and came to nothing. What could not be rehearsed or written down is tried again. */
function isDeclined({ outcome, stale }: Ending): boolean {
  if (outcome.kind === 'refused') return outcome.refusal.problems.some(({ code }) => code === 'NODE_REFUSES_RULES');
  return outcome.kind === 'rolled-back' && stale !== true;
}

interface Part {
  readonly target: Target;
  readonly change: Change;
}

import type { BundleFiles } from '@sluice/bundle';
import { isRefusal, type AdmittedBundle } from '../admission/admit.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { Generation, VersionedState } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import { mayGetFirstEndpoint, ActiveFiles } from '../endpoints/active-files.ts';
import { overlayEndpoints } from '../endpoints/overlay-endpoints.ts';
import { changeKindOf } from '../endpoints/change-kind.ts';
import type { Changes } from './changes.ts';
import type { PlannedChange, TransactionResult } from '../transaction/planned-change.ts';
import { stepsOf } from '../plan/transaction-plan.ts';
import { type LastEndpointWaits, waitMs } from '../endpoints/last-endpoint-delay.ts';

/**
 * Early endpoint sync: applies to the active generation the parts of a bundle that need not wait for the rest. These are its endpoints,
 * before a release is tried or while it must wait, and the whole bundle without the Services whose last endpoint must wait.
 */
export class EarlyEndpoints {
  readonly #changes: Changes;
  readonly #ports: Pick<Ports, 'journal' | 'declined'>;
  readonly #files = new ActiveFiles();
  /** The version whose endpoints the kernel refused. */
  #declined: string | undefined;
  /** The last attempts that applied nothing, so that they are not repeated at each scan (`attemptAt`). */
  readonly #fruitless = { first: '', partial: '' };

  constructor(changes: Changes, ports: Pick<Ports, 'journal' | 'declined'>) {
    this.#changes = changes;
    this.#ports = ports;
  }

  /** Remembers that the active generation was made from exactly these files. */
  activated(files: BundleFiles, generation: Generation): void {
    this.#files.activate(files, generation);
  }

  /** The same after a change. If endpoints of another bundle went in during probation, the files of the generation are not known. */
  learn(files: BundleFiles, { state }: VersionedState, { outcome }: TransactionResult): void {
    if (outcome.kind === 'confirmed' && outcome.generation.state === state)
      this.#files.activate(files, outcome.generation);
  }

  /**
   * Applies the newest endpoints of a release to the active generation, before the release is tried and also while it must wait. They
   * stay if the release is rolled back.
   * @param isLive @see OverlayOptions
   * @returns the outcome; undefined if there are none to apply
   */
  async endpoints(bundle: VersionedState, isLive = false): Promise<Outcome | undefined> {
    const active = this.#active();
    if (!active || this.#declined === bundle.version) return undefined;
    const state = overlayEndpoints(active.state, bundle.state, { declined: this.#ports.declined.read(), isLive });
    const isAll = !isLive && changeKindOf(active.state, bundle.state) === 'endpoints';
    if (state === active.state || isAll) return undefined;
    const change = await this.#changes.decide({ ...active, state }, isLive ? { changeKind: 'endpoints' } : {});
    if ('problems' in change || change.changeKind !== 'endpoints') return undefined;
    const ending = await this.#changes.update(change);
    if (isDeclined(ending)) this.#declined = bundle.version;
    return ending.outcome;
  }

  /**
   * Applies a bundle without the Services whose last endpoint must wait, which keep their present files.
   * @param version of the bundle
   * @param pending the frontends of these Services
   * @returns the outcome, if the kernel took it; undefined if no Service must wait, or if the bundle cannot be split
   */
  async withoutPending(
    offered: BundleFiles,
    version: string,
    pending: readonly string[],
  ): Promise<Outcome | undefined> {
    const active = this.#active();
    const attempt = `${attemptAt(version, active)} ${pending.join()}`;
    if (!active || pending.length === 0 || this.#fruitless.partial === attempt) return undefined;
    const files = this.#files.withoutPending(offered, pending, active);
    if (!files) return undefined;
    const found = await this.#part(files, active);
    if (!found || found.change.last?.some((frontend) => pending.includes(frontend))) return undefined;
    if (stepsOf(found.change.plan).length === 0) return { kind: 'same', generation: active };
    return this.#carryOut(files, found, () => void (this.#fruitless.partial = attempt));
  }

  /**
   * Applies the first endpoints of a release to Services of the active generation, before probation and while the release must wait.
   * Other changes of these Services' endpoints go in with them, except last ones.
   * @param bundle the release, from these files
   * @returns the outcome, if the kernel took it; undefined if there are none to apply, or more than endpoints would change with them
   */
  async firstEndpoints(offered: BundleFiles, { version, state }: VersionedState): Promise<Outcome | undefined> {
    const active = this.#active();
    const attempt = attemptAt(version, active);
    if (!active || this.#fruitless.first === attempt) return undefined;
    const files = this.#files.withServicesOf(offered, active, mayGetFirstEndpoint(active.state, state));
    if (!files) return undefined;
    const all = await this.#part(files, active);
    const last = all?.change.last ?? [];
    const remaining = last.length === 0 ? files : this.#files.withoutPending(files, last, active);
    const found = remaining === files ? all : remaining && (await this.#part(remaining, active));
    const { first = [], last: left = [] } = found?.change ?? {};
    const giveUp = (): void => void (this.#fruitless.first = attempt);
    if (remaining && found && first.length > 0 && left.length === 0) return this.#carryOut(remaining, found, giveUp);
    giveUp();
    return undefined;
  }

  /** @see ActiveFiles.withLost @returns undefined also where endpoints of these Services are newer than the files */
  async withLost(offered: BundleFiles, emptied: readonly string[]): Promise<BundleFiles | undefined> {
    const active = this.#active();
    const files = active && this.#files.withLost(offered, emptied, active);
    const bundle = files && (await this.#changes.admit(files));
    if (!bundle || isRefusal(bundle) || this.#files.wouldRevert(bundle.state, active)) return undefined;
    return files;
  }

  #active(): Generation | undefined {
    const { active } = this.#ports.journal;
    // Generation 0, the rules before Sluice, is never changed.
    return active?.number === 0 ? undefined : active;
  }

  /** The change from the active generation to these files; undefined if it is more than endpoints, or if the files are out of date. */
  async #part(files: BundleFiles, active: Generation): Promise<EarlyChange | undefined> {
    const bundle = await this.#changes.admit(files);
    if (isRefusal(bundle) || this.#files.wouldRevert(bundle.state, active)) return undefined;
    const target = { version: active.version, state: bundle.state, partial: active.partial };
    const change = await this.#changes.decide(target);
    return 'problems' in change || change.changeKind !== 'endpoints' ? undefined : { target, change };
  }

  /** @param giveUp called when another attempt would fail, too: each attempt is a record in the journal */
  async #carryOut(
    files: BundleFiles,
    { target, change }: EarlyChange,
    giveUp: () => void,
  ): Promise<Outcome | undefined> {
    const ending = await this.#changes.update(change);
    this.learn(files, target, ending);
    if (isDeclined(ending)) giveUp();
    const { outcome } = ending;
    return outcome.kind === 'confirmed' || outcome.kind === 'held' || outcome.kind === 'pending' ? outcome : undefined;
  }
}

const attemptAt = (version: string, active: Generation | undefined): string =>
  `${version} ${active?.number} ${active?.revision}`;

/** Whether the kernel refused a change or its rehearsal. A change that could not be rehearsed or written down is retried instead. */
function isDeclined({ outcome, stale }: TransactionResult): boolean {
  if (outcome.kind === 'refused') return outcome.refusal.problems.some(({ code }) => code === 'NODE_REFUSES_RULES');
  return outcome.kind === 'rolled-back' && stale !== true && outcome.again !== true;
}

interface EarlyChange {
  readonly target: VersionedState;
  readonly change: PlannedChange;
}

/** Which parts of a bundle need not wait for the rest. */
export interface EarlyScope {
  /** Frontends that lose their last endpoint later: the bundle without their Services goes in; if it cannot be split, its endpoints. */
  readonly waits: LastEndpointWaits;
  /** The first endpoints of Services: not for keys for endpoints. */
  readonly withFirst: boolean;
  /** Its endpoints, whether the rest must wait or not. */
  readonly withEndpoints: boolean;
  /** @see OverlayOptions */
  readonly isLive?: boolean;
}

/** What early endpoint sync has done of one bundle: each part is tried at most once. */
export interface EarlyTried {
  /** The parts that were not tried yet. */
  readonly left: Set<'split' | 'first' | 'endpoints'>;
  /** The bundle could be split: what waits are single Services. */
  isSplit: boolean;
  /** The outcome of the last part. */
  outcome: Outcome | undefined;
}

/**
 * Carries out the next part of a bundle that need not wait for the rest.
 * @param tried what is tried is taken out of it
 * @returns its outcome; then the rest must be admitted again, because names of its chains may be in use. undefined: no part is left
 */
export async function earlyStep(
  early: EarlyEndpoints,
  files: BundleFiles,
  bundle: AdmittedBundle,
  { waits, withFirst, withEndpoints, isLive }: EarlyScope,
  tried: EarlyTried,
): Promise<Outcome | undefined> {
  const { left } = tried;
  if (waits.pending.length > 0 && left.delete('split')) {
    const split = await early.withoutPending(files, bundle.version, waits.pending);
    tried.isSplit = split !== undefined;
    tried.outcome = split ?? tried.outcome;
    if (split && split.kind !== 'same') return split;
  }
  const first = withFirst && left.delete('first') ? await early.firstEndpoints(files, bundle) : undefined;
  const isWanted = withEndpoints || waitMs(waits, tried.isSplit) > 0;
  const done = first ?? (isWanted && left.delete('endpoints') ? await early.endpoints(bundle, isLive) : undefined);
  tried.outcome = done ?? tried.outcome;
  return done;
}

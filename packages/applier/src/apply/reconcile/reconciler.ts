import type { BundleFiles } from '@sluice/bundle';
import type { Generation } from '../../ports/journal.ts';
import type { TrackedFlow } from '../../ports/kernel.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { describe, type Outcome } from '../../ports/outcome.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { isRefusal } from '../admission/admit.ts';
import { familiesWithTools } from '../admission/start-state.ts';
import { LastEndpointDelay } from '../endpoints/last-endpoint-delay.ts';
import { staleFlows, decidedAt, udpFamilies } from '../plan/flows.ts';
import { fallBack } from '../recovery/fall-back.ts';
import { recognise } from '../recovery/recognise.ts';
import { isBare, rescue, resume } from '../recovery/recover.ts';
import { orReport } from '../report-failure.ts';
import { cleanUp, ownedNow } from '../transaction/clean-up.ts';
import { forgetAfter } from '../transaction/forgetting.ts';
import { noOffers } from '../transaction/offers.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';
import { restore, withDropped } from '../transaction/restore.ts';
import { type RollBackOptions, rollBackTo } from '../transaction/roll-back-to.ts';
import { ownedNames, switchOff, rollbackState } from '../transaction/roll-back.ts';
import { rehearse } from '../transaction/transaction.ts';
import { type ChangeOptions, Changes, KernelMemory } from './changes.ts';
import { EarlyEndpoints } from './early-endpoints.ts';
import { EndpointBounds } from './endpoint-bounds.ts';
import { beyondEndpoints, isMore, quarantined, whyQuarantined } from './gate.ts';
import { LiveEndpoints, LiveMemory } from './live-endpoints.ts';
import { offerNewest } from './offer-newest.ts';
import type { ReconcileDependencies, SaidByRelease } from './parts.ts';
import { reconcile } from './reconcile.ts';
import { RemovalHold, type RemovalRules } from './removal-hold.ts';
import { DriftRepair, type RepairOptions } from './repair.ts';

/** The settings of a reconciler in the node's config. */
export interface ReconcilerOptions extends ChangeOptions, RepairOptions {
  /** Once so many failed within an hour, an operator or the hour decides. */
  readonly releasesPerHour: number;
  /** The last-endpoint delay; left out: none. */
  readonly lastEndpointAfterMs?: number;
  /** Which removals are held, and how long; left out: none. */
  readonly removals?: RemovalRules;
}

/** The end of a change is still to be tried again. */
class Pending extends Error {
  override readonly name = 'Pending';
}

/**
 * Keeps one kernel at the active generation of the journal: recovers after a crash, repairs drift, and puts bundles in, one at a time.
 * Callers never overlap two of its methods.
 */
export class Reconciler {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #memory = new KernelMemory();
  readonly #drift: DriftRepair;
  readonly #live: (release: BundleFiles) => LiveEndpoints;
  readonly #parts: ReconcileDependencies;

  constructor(ports: Ports, facts: () => NodeFacts, options: ReconcilerOptions) {
    this.#ports = ports;
    this.#facts = facts;
    this.#drift = new DriftRepair(ports, facts, options, this.#memory);
    const live = new LiveMemory();
    this.#live = (release) => new LiveEndpoints(release, options, facts, live);
    const changes = new Changes(ports, facts, options, this.#memory);
    this.#parts = {
      ports,
      changes,
      early: new EarlyEndpoints(changes, ports),
      lastEndpointDelay: new LastEndpointDelay(options.lastEndpointAfterMs ?? 0, ports.clock),
      removals: new RemovalHold(options.removals, ports.clock),
      bounds: new EndpointBounds(ports),
      keeper: this.#drift,
      releasesPerHour: options.releasesPerHour,
    };
  }

  /**
   * Closes the transaction that an earlier process left open: rolls it back, or finishes it if it was committed. To be called first. Also
   * replaces a lost journal or a damaged generation, where that is safe.
   * @param end no retries once it aborts: the next process continues
   * @returns undefined if there was nothing to recover
   */
  async recover(end?: AbortSignal): Promise<Outcome | undefined> {
    const { journal } = this.#ports;
    const families = familiesWithTools(this.#facts());
    const node = {
      families,
      hasKubeProxy: () => this.#facts().kubeProxies().length > 0,
      recognise: async () => recognise(this.#facts(), this.#ports),
    };
    const found = (await rescue(families, this.#ports)) ?? (await fallBack(node, this.#ports));
    if (found) return found;
    // A node that was halted in the middle of a change tries its end again.
    const isStuck = journal.open === undefined || journal.lost !== undefined || journal.damaged !== undefined;
    if (journal.halted !== undefined && isStuck)
      return { kind: 'held', because: journal.halted, rollback: 'not retried' };
    const ending = await resume(this.#ports, end);
    if (ending) this.#memory.remember(ending);
    return ending?.outcome;
  }

  /**
   * Makes the kernel hold the active generation: after a boot, and whenever another program changed our chains or jumps.
   * @param tables false: no change of the tables was reported, so that only sysctls and mode ipvs are compared, unless the state of the
   *   tables is unknown
   * @param interrupt when it aborts before a difference was found, the comparison ends early, unless the state of the tables is unknown
   * @param ended takes the outcome of an open change that could be ended now
   * @returns the number of steps; 0 if nothing differed
   * @throws Pending when an open change cannot be ended yet
   */
  async repair(
    tables = true,
    interrupt?: AbortSignal,
    ended?: (outcome: Outcome) => void,
  ): Promise<number | 'interrupted'> {
    const { journal } = this.#ports;
    const left = journal.open || (tables && journal.lost !== undefined) ? await this.recover() : undefined;
    if (left?.kind === 'pending') throw new Pending(describe(left));
    if (left && left.kind !== 'held') ended?.(left);
    return this.#drift.repair(tables, interrupt);
  }

  /** What other programs had added to the table of mode nftables, and the last repair removed: `chain x`. */
  get removed(): readonly string[] {
    return this.#drift.removed;
  }

  /**
   * Deletes conntrack entries of UDP connections to endpoints that their frontend does not have any more, as a deletion may have been
   * missed, or to none, as they began while the rules were away.
   * Never without the rules: a connection whose entry is deleted then comes back untranslated, and stays so as long as its client sends. Nor
   * by what stood in the table before a repair.
   * @returns their number of flows
   * @throws KernelError when the entries cannot be read
   * @throws StillDiffers when another program undoes the repair at once
   */
  async reconcileFlows(): Promise<number> {
    const { journal, kernel } = this.#ports;
    const { active, open, halted } = journal;
    const isSettled = active !== undefined && open === undefined && halted === undefined;
    if (!isSettled || kernel.trackedPaths === undefined) return 0;
    const among = udpFamilies(active.state);
    if (among.length === 0) return 0;
    const find = async (): Promise<readonly TrackedFlow[]> =>
      staleFlows(active.state, (await kernel.trackedPaths?.(among, decidedAt(active.state))) ?? []);
    let stale = await find();
    if (stale.length > 0 && (await this.#drift.repairAll()) > 0) stale = await find();
    await forgetAfter(stale, this.#ports);
    return stale.length;
  }

  /** How often the rules were repaired, by this process. */
  get repairs(): number {
    return this.#drift.repairs;
  }

  /** @see DriftRepair.unknownRules */
  async unknownRules(): Promise<string | undefined> {
    return this.#drift.unknownRules();
  }

  /** Compares the kernel with the active generation and changes nothing. @returns a line for each step that `repair` would take */
  async differences(): Promise<readonly string[]> {
    return this.#drift.differences();
  }

  /** @see LiveEndpoints */
  withLive(release: BundleFiles): LiveEndpoints {
    return this.#live(release);
  }

  /**
   * Puts a bundle into the kernel, or refuses it. The parameters are the fields of `PutRequest`.
   * @see reconcile
   */
  async put(
    files: BundleFiles,
    byHand: boolean,
    offers = noOffers,
    onlyEndpoints = false,
    said: SaidByRelease = {},
  ): Promise<Outcome> {
    const left = await this.recover();
    if (left?.kind === 'held' || left?.kind === 'pending') return left;
    const before = this.#ports.journal.active;
    const outcome = await reconcile({ files, byHand, offers, onlyEndpoints, said }, this.#parts);
    this.#parts.bounds.learn(files, onlyEndpoints, before, outcome);
    return outcome;
  }

  /**
   * Takes the newest endpoints of a bundle into the rollback that the kernel of a halted node refuses, and tries it again with them.
   * @param onlyEndpoints as of `put`
   * @returns how it ended; undefined if they change nothing
   * @throws KernelError when the kernel cannot be read
   */
  async offerEndpoints(files: BundleFiles, onlyEndpoints = false): Promise<Outcome | undefined> {
    const { changes, bounds } = this.#parts;
    const bundle = await changes.admit(files);
    if (isRefusal(bundle) || (onlyEndpoints && bounds.refuse(bundle))) return undefined;
    return (await offerNewest(bundle, this.#ports)) ? this.recover() : undefined;
  }

  /**
   * Tries whether the kernel would take a bundle, without changing any rule that packets meet.
   * @returns `same` if it is the active version
   */
  async rehearse(files: BundleFiles): Promise<'same' | 'ready' | Refusal> {
    const { changes, lastEndpointDelay } = this.#parts;
    const { journal } = this.#ports;
    lastEndpointDelay.forget();
    const bundle = await changes.admit(files);
    if (isRefusal(bundle)) return bundle;
    if (bundle.version === journal.active?.version) return 'same';
    const bad = whyQuarantined(bundle, this.#ports);
    if (bad !== undefined) return quarantined(bundle.version, bad);
    const change = await changes.decide(bundle);
    if ('problems' in change) return change;
    return (await rehearse(change, this.#ports)) ?? 'ready';
  }

  /** Decides what `put` would do, without doing it. */
  async preview(files: BundleFiles, onlyEndpoints = false): Promise<PlannedChange | Refusal> {
    const { changes, bounds } = this.#parts;
    const bundle = await changes.admit(files, true);
    if (isRefusal(bundle)) return bundle;
    const outside = onlyEndpoints ? bounds.refuse(bundle) : undefined;
    if (outside) return outside;
    const change = await changes.decide(bundle, { replacesAll: onlyEndpoints });
    return onlyEndpoints && !('problems' in change) && isMore(change) ? beyondEndpoints(bundle.version) : change;
  }

  /** The share of all Services, 0 to 1, whose endpoints were changed by keys for endpoints within the last hour. */
  get endpointShare(): number {
    return this.#parts.bounds.share;
  }

  /** Whether the kernel holds no rules for Services of any program, as after a boot. */
  async isBare(): Promise<boolean> {
    return isBare(await this.#ports.kernel.observe(familiesWithTools(this.#facts())), this.#ports);
  }

  /** @see load */
  async load(target: Generation): Promise<void> {
    this.#memory.remember({});
    return load(target, this.#ports);
  }

  /**
   * Takes over Sluice's rules in the kernel, for a node that lost its state directory; no rule changes.
   * @returns the generation that is active from now on, or why there is none
   */
  async recognise(): Promise<Generation | Refusal> {
    const state = await recognise(this.#facts(), this.#ports);
    if ('problems' in state) return state;
    return this.#ports.journal.recognised(state, 'the state directory was lost; these rules were in the kernel');
  }

  /** @see cleanUp */
  async cleanup(keepsKubeProxy = false): Promise<number> {
    this.#memory.remember({});
    return cleanUp(this.#ports, keepsKubeProxy);
  }

  /**
   * Whether a rollback from generation 0 would take over from Service rules that this node has by now, without the certificate that it needs.
   * @returns why not; undefined: the rollback may go ahead
   */
  async refuseRollback(target: Generation): Promise<Refusal | undefined> {
    // The other rollbacks read no rules first, and ask nothing: also from a generation that cannot be read, which is not known to be 0.
    if (target.number === 0 || this.#ports.journal.active?.number !== 0) return undefined;
    const observed = await this.#ports.kernel.observe(familiesWithTools(this.#facts()));
    return this.#parts.changes.refuseTakeOver(target.version, { from: target, observed });
  }

  /** @see rollBackTo */
  async rollBackTo(target: Generation, options: RollBackOptions = {}): Promise<Outcome> {
    this.#memory.remember({});
    const ending = await rollBackTo(target, options, this.#ports);
    this.#memory.remember(ending);
    return ending.outcome;
  }
}

/**
 * Makes the kernel hold a generation without writing to the disk: for a read-only or full disk, and for a node that stays halted. An open
 * transaction is removed from the kernel; the next process that can write closes it in the journal.
 * @throws KernelError, StillDiffers if the kernel does not take it
 */
export async function load(target: Generation, ports: Ports): Promise<void> {
  const { active, originals } = ports.journal;
  const state = active ? withDropped(target.state, active.state, originals) : target.state;
  // Outside of probation no rule uses a set, so a failing ipset must not prevent the rules from being loaded.
  await orReport('switch-not-off', ports, () => switchOff(ports));
  const owned = target === active ? await ownedNames(target, ports) : await ownedNow(ports);
  await restore(rollbackState(state, ports), owned, ports);
  await orReport('switch-not-off', ports, () => ports.kernel.switch?.remove());
}

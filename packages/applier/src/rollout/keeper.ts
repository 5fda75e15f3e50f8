import type { BundleFiles, Problem } from '@sluice/bundle';
import type { IpvsSeen } from '../ipvs/values.ts';
import { limits } from '../limits.ts';
import { admit, type AdmittedBundle, AdmitMemory, type AdmitOptions, isRefusal } from './admit.ts';
import { flowChange, forgetAfter } from './flows.ts';
import { messageOf } from './message.ts';
import type { Outcome } from './outcome.ts';
import { adaptGoal, countNames, ownState, strangers } from './own.ts';
import { type Plan, plan } from './plan.ts';
import type { Generation, NodeFacts, Ports, Refusal } from './ports.ts';
import {
  carryOut,
  type Ending,
  type Ground,
  restore,
  rollout,
  takeBack,
  wayBack,
  withDropped,
  withSysctls,
} from './rollout.ts';
import {
  type ChainNames,
  chainNames,
  familiesOf,
  familyNames,
  joinNames,
  type NodeState,
  type Observed,
} from './state.ts';
import { drainVirtual, lookVirtual, type Virtual } from './virtual.ts';

/** What the node's config says about taking part. */
export interface KeeperOptions extends AdmitOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
}

/**
 * Keeps one kernel at what the journal says: finishes what a crash left, repairs what others changed, and puts bundles in, one at a
 * time. Callers never overlap two of its methods.
 */
export class Keeper {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: KeeperOptions;
  readonly #memory = new AdmitMemory();
  /** What the kernel is known to hold, from the last time it was read or written and verified. */
  #settled: NodeState | undefined;
  /** The same for mode ipvs. */
  #seen: IpvsSeen | undefined;

  constructor(ports: Ports, facts: () => NodeFacts, options: KeeperOptions) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
  }

  /**
   * Finishes what a process before this one left open: the old rules come back. To be called first.
   * @returns undefined when nothing was open
   */
  async recover(): Promise<Outcome | undefined> {
    const { journal } = this.#ports;
    if (journal.held !== undefined) return { kind: 'held', because: journal.held, rollback: 'not tried again' };
    const intent = journal.open;
    if (!intent) return undefined;
    const from = await journal.generation(intent.from);
    if (!from) return this.#hold(`generation ${intent.from}, the way back, cannot be read`);
    if ((await journal.countRecovery()) > limits.recoveriesMax) {
      return this.#hold(`${limits.recoveriesMax} processes ended while they put generation ${from.number} back`);
    }
    const because = 'the process ended in the middle of the change';
    const ending = await takeBack(because, from, intent, this.#ports, 'process');
    this.#settled = ending.settled;
    return ending.outcome;
  }

  async #hold(because: string): Promise<Outcome> {
    await this.#ports.journal.hold(because);
    return { kind: 'held', because, rollback: 'not possible' };
  }

  /**
   * Makes the kernel hold the confirmed generation: after a boot, and whenever others changed our chains or jumps.
   * @returns how many steps it took; 0 when nothing differed
   */
  async settle(): Promise<number> {
    const { journal, report } = this.#ports;
    const standing = journal.standing;
    if (!standing || journal.held !== undefined || journal.open) return 0;
    const change = await this.#difference(standing.state);
    this.#seen = undefined;
    if (change.plan.steps.length === 0) {
      this.#settled = change.goal;
      if (change.virtual) await this.#drain(change.virtual);
      return 0;
    }
    report('repairing', {
      steps: change.plan.steps.length,
      chains: change.plan.touched.map(({ family, table }) => `${family} ${table}`),
    });
    this.#settled = undefined;
    this.#settled = await restore(standing.state, chainNames(standing.state), this.#ports);
    return change.plan.steps.length;
  }

  async #drain(virtual: Virtual): Promise<void> {
    const left = await drainVirtual(virtual, this.#ports);
    if (left > 0) this.#ports.report('drained', { realServers: left });
    else this.#seen = virtual.seen;
  }

  async #difference(state: NodeState): Promise<{ plan: Plan; goal: NodeState; virtual: Virtual | undefined }> {
    const { kernel } = this.#ports;
    const owned = chainNames(state);
    const observed = await kernel.observe(familiesOf(state));
    const others = countNames(strangers(observed, owned));
    this.#ports.report('strangers', { chains: others });
    const goal = adaptGoal(state, observed, owned);
    // First: the look loads the module, and with it come its sysctls.
    const virtual = await lookVirtual(goal, owned, this.#ports);
    const now = await withSysctls({ families: ownState(observed, owned, goal), sysctls: new Map() }, goal, this.#ports);
    return { plan: plan(now, goal, kernel, virtual?.plan), goal, virtual };
  }

  /**
   * Puts a bundle into the kernel, or says why not.
   * @param byHand a person asked for it: a version that failed before is tried again
   */
  async put(files: BundleFiles, byHand: boolean): Promise<Outcome> {
    const { journal } = this.#ports;
    const left = await this.recover();
    if (left?.kind === 'held') return left;
    const bundle = await this.#admit(files);
    if (isRefusal(bundle)) return { kind: 'refused', refusal: bundle };
    const bad = byHand ? undefined : journal.quarantined(bundle.version);
    if (bad !== undefined) return { kind: 'refused', refusal: quarantined(bundle.version, bad) };
    const ending = await this.#change(bundle);
    if (!ending.stale || ending.outcome.kind !== 'rolled-back') return ending.outcome;
    // What the kernel was thought to hold was out of date; now it is what the journal says.
    this.#settled = undefined;
    this.#seen = undefined;
    return (await this.#change(bundle)).outcome;
  }

  /** Sysctls of mode ipvs are there once its module is, which the first look at virtual servers loads. */
  async #admit(files: BundleFiles): Promise<AdmittedBundle | Refusal> {
    const { kernel, journal } = this.#ports;
    const admitted = admit(files, this.#options, this.#facts(), this.#memory);
    const comesToIpvs = isRefusal(admitted)
      ? admitted.problems.some(lacksModule)
      : admitted.state.ipvs !== undefined && journal.standing?.state.ipvs === undefined;
    if (!comesToIpvs || !kernel.ipvs) return admitted;
    try {
      await kernel.ipvs.observe();
    } catch (error) {
      return { problems: [withoutIpvs(messageOf(error))] };
    }
    return isRefusal(admitted) ? admit(files, this.#options, this.#facts(), this.#memory) : admitted;
  }

  async #change(bundle: AdmittedBundle): Promise<Ending> {
    const ground = await this.#ground(bundle, false);
    if ('problems' in ground) return { outcome: { kind: 'refused', refusal: ground } };
    const ending = await rollout(bundle, ground, this.#ports);
    this.#settled = ending.settled;
    this.#seen = ending.ipvs;
    return ending;
  }

  /** What `put` would do, without doing it. */
  async preview(files: BundleFiles): Promise<Plan | Refusal> {
    const bundle = await this.#admit(files);
    if (isRefusal(bundle)) return bundle;
    const ground = await this.#ground(bundle, true);
    if ('problems' in ground) return ground;
    const wanted = withDropped(bundle.state, ground.from.state, this.#ports.journal.originals);
    const goal = adaptGoal(wanted, ground.observed ?? {}, chainNames(ground.from.state));
    const virtual = await lookVirtual(goal, chainNames(ground.from.state), this.#ports);
    return plan(await withSysctls(ground.now, goal, this.#ports), goal, this.#ports.kernel, virtual?.plan);
  }

  /** What stands before the change: known from before, or read; on the first run it becomes generation 0. */
  async #ground(bundle: AdmittedBundle, dryRun: boolean): Promise<Ground | Refusal> {
    const { kernel, journal } = this.#ports;
    const standing = journal.standing;
    const sameFamilies = standing && familiesOf(bundle.state).every((family) => standing.state.families[family]);
    if (standing && sameFamilies && this.#settled) {
      return { from: standing, now: this.#settled, ...(this.#seen ? { ipvs: this.#seen } : {}) };
    }
    const families = familyNames.filter((family) => this.#facts().tools[family] !== undefined);
    const observed = await kernel.observe(families);
    const owned = standing ? chainNames(standing.state) : {};
    const others = strangers(observed, owned);
    const taken = this.#options.takeOver ? others : {};
    const refusal = this.#mayTake(others);
    if (refusal) return refusal;
    const names = joinNames(owned, taken);
    const now: NodeState = { families: ownState(observed, names, bundle.state), sysctls: new Map() };
    const from = standing ?? (await this.#first(now, observed, dryRun));
    return { from, now, observed };
  }

  /** Stores what stood before Sluice. A dry run only pretends. */
  async #first(now: NodeState, observed: Observed, dryRun: boolean): Promise<Generation> {
    const state: NodeState = { families: now.families, sysctls: new Map() };
    this.#ports.report('first-run', { chains: countNames(chainNames(now)), families: Object.keys(observed) });
    return dryRun ? { number: 0, version: 'before', state } : this.#ports.journal.adopt(state);
  }

  #mayTake(others: ChainNames): Refusal | undefined {
    const count = countNames(others);
    if (count === 0) return undefined;
    const running = this.#facts().kubeProxies();
    if (this.#options.takeOver && running.length === 0) return undefined;
    return { problems: [notOurs(others, count, this.#options.takeOver ? running : [])] };
  }

  /**
   * Removes every chain and jump that Sluice made and gives sysctls the values that they had before.
   * @returns the number of steps
   */
  async cleanup(): Promise<number> {
    const { kernel, journal } = this.#ports;
    const standing = journal.standing;
    if (!standing) return 0;
    const owned = joinNames(chainNames(standing.state), journal.open?.creates ?? {});
    const observed = await kernel.observe(familyNames.filter((family) => owned[family]));
    const goal = adaptGoal({ families: {}, sysctls: journal.originals }, observed, owned);
    const virtual = await lookVirtual(goal, owned, this.#ports);
    const now = await withSysctls({ families: ownState(observed, owned, goal), sysctls: new Map() }, goal, this.#ports);
    const change = plan(now, goal, kernel, virtual?.plan);
    await carryOut(change, this.#ports);
    await journal.forget();
    this.#settled = undefined;
    return change.steps.length;
  }

  /**
   * Goes back to a generation because a person says so. The version that is left is remembered as bad, so that the daemon does not
   * bring it back by itself; a node that was held is free again.
   */
  async backTo(target: Generation): Promise<Outcome> {
    const { journal } = this.#ports;
    const standing = journal.standing;
    const owned = joinNames(standing ? chainNames(standing.state) : {}, journal.open?.creates ?? {});
    const before = standing ? withDropped(target.state, standing.state, journal.originals) : target.state;
    const old = journal.open ? wayBack({ ...target, state: before }, journal.open) : before;
    try {
      this.#settled = await restore(old, owned, this.#ports);
    } catch (error) {
      return { kind: 'held', because: `generation ${target.number} cannot be loaded`, rollback: messageOf(error) };
    }
    if (standing) await forgetAfter(flowChange(standing.state, old).old, this.#ports);
    return { kind: 'confirmed', generation: await journal.choose(target), steps: 0 };
  }
}

/** Whether a problem may be gone when the module of mode ipvs is loaded. */
function lacksModule({ code, message }: Problem): boolean {
  return code === 'NODE_SYSCTL_FIXED' && message.includes(' net.ipv4.vs.');
}

function withoutIpvs(because: string): Problem {
  return {
    code: 'NODE_LACKS_NEED',
    level: 'error',
    message: `Cannot apply a profile in mode ipvs: the kernel of the node does not have it: ${because}`,
    hint: 'Load the module (`modprobe ip_vs`), or give the node a profile in mode iptables',
  };
}

function quarantined(version: string, because: string): Refusal {
  const problem: Problem = {
    code: 'BUNDLE_QUARANTINED',
    level: 'error',
    message: `Cannot apply version ${version} again: ${because}`,
    hint: 'Ship another version, or run `sluiced apply DIR --node NAME` by hand to try this one again',
  };
  return { problems: [problem] };
}

function notOurs(others: ChainNames, count: number, running: readonly number[]): Problem {
  const family =
    familyNames.find((name) => others[name] && others[name].filter.length + others[name].nat.length > 0) ?? 'ipv4';
  const example = others[family]?.nat[0] ?? others[family]?.filter[0] ?? '';
  const processes = running.join(', ');
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message: `Cannot apply the bundle: ${count} chains such as ${example} (${family}) were made by somebody else`,
    hint:
      running.length > 0
        ? `kube-proxy still runs (process ${processes}): stop it first, sluiced takes its chains over then`
        : 'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml',
  };
}

import type { BundleFiles, Family, Problem } from '@sluice/bundle';
import type { IpvsSeen } from '../ipvs/values.ts';
import { limits } from '../limits.ts';
import { admit, type AdmittedBundle, AdmitMemory, type AdmitOptions, isRefusal } from '../rollout/admit.ts';
import { carryOut } from '../rollout/carry-out.ts';
import { flowChange, forgetAfter } from '../rollout/flows.ts';
import { messageOf } from '../rollout/message.ts';
import { fallBack } from '../rollout/fall-back.ts';
import type { Outcome } from '../rollout/outcome.ts';
import { adaptGoal, countNames, otherSluice, ownState, strangers } from '../rollout/own.ts';
import { type Plan, plan } from '../rollout/plan.ts';
import type { Generation, NodeFacts, Ports, Refusal } from '../rollout/ports.ts';
import { restore, withDropped, withSysctls } from '../rollout/restore.ts';
import { type ChainNames, chainNames, familiesOf, familyNames, joinNames, type NodeState } from '../rollout/state.ts';
import { drainVirtual, lookVirtual, type Virtual } from '../rollout/virtual.ts';
import { ownedNames, switchOff, wayBack } from './back.ts';
import { decideChange } from './change.ts';
import { isTree } from './entries.ts';
import { type Ground, knowsGround, readGround } from './ground.ts';
import type { ProbationRules } from './probation.ts';
import { resume } from './resume.ts';
import { type Change, type Ending, rehearse, transaction } from './transaction.ts';
import { stepsOf } from './way.ts';

/** What the node's config says about taking part. */
export interface KeeperOptions extends AdmitOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
  readonly probation: ProbationRules;
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
   * Finishes what a process before this one left open: the old rules come back, or the new ones when they were committed. To be
   * called first. A generation that cannot be read any more is gone around here, too.
   * @returns undefined when nothing was open
   */
  async recover(): Promise<Outcome | undefined> {
    const { journal } = this.#ports;
    const fell = await fallBack(this.#families(), this.#ports);
    if (fell) return fell;
    if (journal.held !== undefined) return { kind: 'held', because: journal.held, rollback: 'not tried again' };
    const ending = await resume(this.#ports);
    if (ending) this.#remember(ending);
    return ending?.outcome;
  }

  /** Those that the node has tools for. */
  #families(): readonly Family[] {
    return familyNames.filter((family) => this.#facts().tools[family] !== undefined);
  }

  #remember({ settled, ipvs }: Ending): void {
    this.#settled = settled;
    this.#seen = ipvs;
  }

  /**
   * Makes the kernel hold the confirmed generation: after a boot, and whenever others changed our chains or jumps.
   * @returns how many steps it took; 0 when nothing differed
   */
  async settle(): Promise<number> {
    const { journal, report } = this.#ports;
    if (journal.open) await this.recover();
    const standing = journal.standing;
    if (!standing || journal.held !== undefined || journal.open) return 0;
    const change = await this.#difference(standing.state);
    this.#seen = undefined;
    if (change.plan.steps.length === 0) {
      this.#settled = change.goal;
      await this.#dropSwitch();
      if (change.virtual) await this.#drain(change.virtual);
      return 0;
    }
    report('repairing', {
      steps: change.plan.steps.length,
      chains: change.plan.touched.map(({ family, table }) => `${family} ${table}`),
    });
    this.#settled = undefined;
    this.#settled = await restore(standing.state, chainNames(standing.state), this.#ports);
    await this.#dropSwitch();
    return change.plan.steps.length;
  }

  /** Sets that a crash left behind, which no rule names any more. */
  async #dropSwitch(): Promise<void> {
    const { kernel } = this.#ports;
    if (await kernel.switch?.look()) await kernel.switch?.remove();
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
    const others = countNames(isTree(state) ? otherSluice(observed, owned) : strangers(observed, owned));
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
    const ending = await this.#change(bundle, byHand);
    if (!ending.stale || ending.outcome.kind !== 'rolled-back') return ending.outcome;
    // What the kernel was thought to hold was out of date; now it is what the journal says.
    this.#remember({ outcome: ending.outcome });
    return (await this.#change(bundle, byHand)).outcome;
  }

  /** Sysctls of mode ipvs are there once its module is, which the first look at virtual servers loads. */
  async #admit(files: BundleFiles): Promise<AdmittedBundle | Refusal> {
    const { kernel, journal } = this.#ports;
    const ground = { standing: journal.standing?.state, provideKubeChains: await this.#provides() };
    const read = (): AdmittedBundle | Refusal => admit(files, this.#options, this.#facts(), this.#memory, ground);
    const admitted = read();
    const comesToIpvs = isRefusal(admitted)
      ? admitted.problems.some(lacksModule)
      : admitted.state.ipvs !== undefined && journal.standing?.state.ipvs === undefined;
    if (!comesToIpvs || !kernel.ipvs) return admitted;
    try {
      await kernel.ipvs.observe();
    } catch (error) {
      return { problems: [withoutIpvs(messageOf(error))] };
    }
    return isRefusal(admitted) ? read() : admitted;
  }

  /**
   * Whether layout `tree` also has the chains that CNI plugins jump to. Where kube-proxy's rules stay beside ours they are there, and
   * its names are not ours; whoever takes the place of kube-proxy provides them.
   */
  async #provides(): Promise<boolean> {
    const { journal, kernel } = this.#ports;
    const { standing } = journal;
    if (this.#options.layout !== 'tree' || this.#options.takeOver) return true;
    const natOf = (state: NodeState): readonly (ReadonlyMap<string, unknown> | undefined)[] =>
      familyNames.map((family) => state.families[family]?.nat.chains);
    if (standing && standing.number > 0) {
      return !isTree(standing.state) || natOf(standing.state).some((chains) => chains?.has('KUBE-MARK-MASQ'));
    }
    const observed = await kernel.observe(this.#families());
    return !familyNames.some((family) => observed[family]?.nat.chains.has('KUBE-MARK-MASQ'));
  }

  async #change(bundle: AdmittedBundle, byHand: boolean): Promise<Ending> {
    const change = await this.#decide(bundle, false);
    if ('problems' in change) return { outcome: { kind: 'refused', refusal: change } };
    const { way, from } = change;
    if (stepsOf(way).length === 0 && bundle.version === from.version) {
      this.#settled = way.goal;
      return { outcome: { kind: 'same', generation: from } };
    }
    if (!byHand && this.#mustWait(change)) return { outcome: { kind: 'refused', refusal: tooEarly(bundle.version) } };
    const ending = await transaction(change, this.#options.probation, this.#ports);
    this.#remember(ending);
    return ending;
  }

  /** Releases that fail one after the other are tried less and less often; endpoints do not wait for that. */
  #mustWait({ lane }: Change): boolean {
    const { journal, clock } = this.#ports;
    return lane === 'release' && clock.now() < journal.notBeforeMs;
  }

  async #decide(bundle: AdmittedBundle, dryRun: boolean): Promise<Change | Refusal> {
    const ground = await this.#ground(bundle, dryRun);
    return 'problems' in ground ? ground : decideChange(bundle, ground, this.#ports);
  }

  /**
   * Says whether the kernel would take a bundle, and changes nothing that packets meet.
   * @returns `same` when it is the version that stands
   */
  async rehearse(files: BundleFiles): Promise<'same' | 'ready' | Refusal> {
    const { journal } = this.#ports;
    const bundle = await this.#admit(files);
    if (isRefusal(bundle)) return bundle;
    if (bundle.version === journal.standing?.version) return 'same';
    const bad = journal.quarantined(bundle.version);
    if (bad !== undefined) return quarantined(bundle.version, bad);
    const change = await this.#decide(bundle, true);
    if ('problems' in change) return change;
    return (await rehearse(bundle, change.way, this.#ports)) ?? 'ready';
  }

  /** What `put` would do, without doing it. */
  async preview(files: BundleFiles): Promise<Change | Refusal> {
    const bundle = await this.#admit(files);
    return isRefusal(bundle) ? bundle : this.#decide(bundle, true);
  }

  /** What stands before the change: known from before, or read. */
  async #ground({ state }: AdmittedBundle, dryRun: boolean): Promise<Ground | Refusal> {
    const { standing } = this.#ports.journal;
    if (standing && this.#settled && knowsGround(state, standing)) {
      return { from: standing, now: this.#settled, ...(this.#seen ? { ipvs: this.#seen } : {}) };
    }
    return readGround(state, this.#facts(), { takeOver: this.#options.takeOver, dryRun }, this.#ports);
  }

  /**
   * Removes every chain and jump that Sluice made and gives sysctls the values that they had before.
   * @returns the number of steps
   */
  async cleanup(): Promise<number> {
    const { kernel, journal } = this.#ports;
    const standing = journal.standing;
    if (!standing) return 0;
    await switchOff(this.#ports);
    const owned = await this.#owned();
    const observed = await kernel.observe(familyNames.filter((family) => owned[family]));
    const goal = adaptGoal({ families: {}, sysctls: journal.originals }, observed, owned);
    const virtual = await lookVirtual(goal, owned, this.#ports);
    const now = await withSysctls({ families: ownState(observed, owned, goal), sysctls: new Map() }, goal, this.#ports);
    const change = plan(now, goal, kernel, virtual?.plan);
    await carryOut(change, this.#ports);
    await this.#dropSwitch();
    await journal.forget();
    this.#settled = undefined;
    return change.steps.length;
  }

  /** What is ours: of the generation that stands, and of a change that is open. */
  async #owned(): Promise<ChainNames> {
    const { standing, open } = this.#ports.journal;
    const from = open && (await this.#ports.journal.generation(open.from.number, open.from.revision));
    const own = standing ? await ownedNames(standing, this.#ports) : {};
    return from ? joinNames(own, chainNames(from.state)) : own;
  }

  /**
   * Goes back to a generation because a person says so. The version that is left is remembered as bad, so that the daemon does not
   * bring it back by itself; a node that was held is free again.
   */
  async backTo(target: Generation): Promise<Outcome> {
    const { journal } = this.#ports;
    const standing = journal.standing;
    const before = standing ? withDropped(target.state, standing.state, journal.originals) : target.state;
    const old = wayBack(before, this.#ports);
    try {
      await switchOff(this.#ports);
      this.#settled = await restore(old, await this.#owned(), this.#ports);
      await this.#dropSwitch();
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

function tooEarly(version: string): Refusal {
  const minutes = (ms: number): number => ms / 60_000;
  const problem: Problem = {
    code: 'BUNDLE_QUARANTINED',
    level: 'error',
    message: `Cannot apply version ${version} yet: the release before it failed, and the node waits at least ${minutes(limits.holdDownMs)} minutes, at most ${minutes(limits.holdDownMsMax)}`,
    hint: 'Updates of endpoints do not wait. To try it now, run `sluiced apply DIR --node NAME` by hand',
  };
  return { problems: [problem] };
}

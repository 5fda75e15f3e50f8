import { type Family, printChange, type TableName } from '@sluice/netfilter';
import { familiesWithTools } from '../admission/start-state.ts';
import { judgeOrder, type TakingRule } from '../order/order.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';
import {
  adaptDesired,
  countNames,
  type EarlierRules,
  earlierRules,
  foreignProxyChains,
  foreignSluiceChains,
  ownState,
} from '../plan/ownership.ts';
import { describeStep, type Plan, plan } from '../plan/plan.ts';
import { drainVirtual, type Virtual } from '../plan/virtual.ts';
import type { Step } from '../../ports/kernel.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import {
  chainNames,
  familiesOf,
  isTree,
  type NodeState,
  type Observed,
  type OwnedNames,
  tableOf,
} from '../../ports/node-state.ts';
import { isOfSurroundings } from '../../ports/failure.ts';
import type { Ports } from '../../ports/ports.ts';
import { orInterrupted, restore, withSysctls } from '../transaction/restore.ts';
import { holdByFamily } from '../transaction/roll-back.ts';
import type { RulesKeeper } from '../transaction/verified-answers.ts';
import { leadDifference, ruleDifference } from '../transaction/verify.ts';
import type { KernelMemory } from './changes.ts';

/** The settings of drift repair in the node's config. */
export interface RepairOptions {
  /** Moves our jumps before foreign rules that take packets of Services. */
  readonly takeOrder?: boolean;
}

/** How the kernel differs from the active generation. */
interface Drift {
  readonly plan: Plan;
  /** The generation as this kernel can have it. */
  readonly desired: NodeState;
  readonly now: NodeState;
  readonly virtual: Virtual | undefined;
  /** The tables, if they were read. */
  readonly observed: Observed | undefined;
}

/** Drift repair: makes the kernel hold the active generation. */
export class DriftRepair implements RulesKeeper {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: RepairOptions;
  readonly #memory: KernelMemory;
  /** What other programs had added to the table of mode nftables, and the last repair removed, as nft names it. */
  removed: readonly string[] = [];
  /** How often rules were repaired. */
  repairs = 0;

  constructor(ports: Ports, facts: () => NodeFacts, options: RepairOptions, memory: KernelMemory) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
    this.#memory = memory;
  }

  /** `Reconciler.repair`, with the journal in order: no transaction is open. */
  async repair(tables: boolean, interrupt?: AbortSignal): Promise<number | 'interrupted'> {
    const { journal, report, kernel } = this.#ports;
    const { active } = journal;
    if (!active || journal.halted !== undefined || journal.open) return 0;
    const known = tables ? undefined : this.#memory.tables;
    const drift = await orInterrupted(this.#compare(active.state, known, this.#memory.tables && interrupt));
    if (drift === 'interrupted') return drift;
    const { steps, touched } = drift.plan;
    this.#memory.remember({});
    this.removed = steps.flatMap((step) => ('removes' in step ? (step.removes ?? []) : []));
    if (steps.length === 0) this.#memory.tables = drift.desired;
    else {
      this.repairs += 1;
      const chains = touched.map(({ family, table }) => `${family} ${table}`);
      report('repairing', {
        steps: steps.length,
        chains,
        ...(this.removed.length > 0 ? { removes: this.removed } : {}),
      });
      try {
        this.#memory.tables = await restore(active.state, chainNames(active.state), this.#ports);
      } catch (error) {
        const plain = { generation: active, flows: [] };
        if (!isOfSurroundings(error)) await holdByFamily({ newest: undefined, plain, other: active }, this.#ports);
        throw error;
      }
    }
    // Sets that a crash left behind and no rule names any more.
    await kernel.switch?.remove();
    await journal.tidy();
    if (steps.length > 0) return steps.length;
    if (drift.virtual) await this.#drain(drift.virtual);
    return drift.observed ? this.#keepOrder(drift.observed, drift.now) : 0;
  }

  /** @see RulesKeeper */
  async looksRight(): Promise<boolean> {
    const state = this.#memory.tables ?? this.#ports.journal.active?.state;
    return state === undefined || (await leadDifference(state, this.#ports.kernel)) === undefined;
  }

  /** @see RulesKeeper */
  async repairAll(): Promise<number> {
    const steps = await this.repair(true);
    // Only a signal interrupts.
    if (steps === 'interrupted' || steps === 0) return 0;
    this.#ports.report('repaired', { steps });
    return steps;
  }

  /** @see RulesKeeper */
  async earlier(): Promise<EarlierRules> {
    const { kernel } = this.#ports;
    const observed = await kernel.observe(familiesWithTools(this.#facts()));
    const traces = await kernel.proxyTraces();
    const now = traces.ipvs || traces.nftables ? 'serving' : earlierRules(observed);
    if (now === 'serving') this.#memory.sawEarlierRules = true;
    return now === 'none' && this.#memory.sawEarlierRules ? 'cut' : now;
  }

  /** @see RulesKeeper */
  get hasProxy(): boolean {
    return this.#facts().kubeProxies().length > 0;
  }

  /** Why the rules are not known to be those of the active generation; undefined: they are. Remembers nothing: it may run beside a change. */
  async unknownRules(): Promise<string | undefined> {
    const { journal } = this.#ports;
    const { active, open } = journal;
    if (open || !active) return open ? 'a change goes on' : 'there is no generation';
    const difference = await ruleDifference(active.state, this.#memory.tables, this.#ports);
    return difference ?? (journal.active === active && !journal.open ? undefined : 'a change went on');
  }

  /** Compares and changes nothing. @returns a line for each step that `repair` would take */
  async differences(): Promise<readonly string[]> {
    const { active } = this.#ports.journal;
    return active ? (await this.#compare(active.state, undefined)).plan.steps.map(describeStep) : [];
  }

  /** @param known the state of the kernel, if its tables need not be read */
  async #compare(state: NodeState, known: NodeState | undefined, interrupt?: AbortSignal): Promise<Drift> {
    const owned = chainNames(state);
    const { desired, families, observed } = known
      ? { desired: known, families: known.families, observed: undefined }
      : await this.#tables(state, owned, interrupt);
    // First: reading mode ipvs loads its module, and with it come its sysctls.
    const otherPlanes = await readOtherPlanes(desired, owned, this.#ports, desired.nft, {
      nft: known !== undefined,
      interrupt,
    });
    const now = await withSysctls({ families, sysctls: new Map() }, desired, this.#ports);
    return {
      plan: plan(now, desired, this.#ports.kernel, otherPlanes),
      desired,
      now,
      virtual: otherPlanes.virtual,
      observed,
    };
  }

  /** Reads the tables. @returns the state as this kernel can have it, and our part of the tables */
  async #tables(
    state: NodeState,
    owned: OwnedNames,
    interrupt?: AbortSignal,
  ): Promise<{ readonly desired: NodeState; readonly families: NodeState['families']; readonly observed: Observed }> {
    const { kernel, report } = this.#ports;
    const observed = await kernel.observe(familiesOf(state), state, interrupt);
    const foreign = isTree(state) ? foreignSluiceChains(observed, owned) : foreignProxyChains(observed, owned);
    report('strangers', { chains: countNames(foreign) });
    const desired = adaptDesired(state, observed, owned, kernel);
    return { desired, families: ownState(observed, owned, desired), observed };
  }

  /** Reports which foreign rules take packets before our jumps; with `takeOrder`, moves our jumps before them. */
  async #keepOrder(observed: Observed, now: NodeState): Promise<number> {
    const order = judgeOrder(observed, now, this.#facts().addresses);
    const steps = this.#options.takeOrder ? moveFirst(order.taking, now) : [];
    for (const step of steps) await this.#ports.kernel.apply(step);
    this.#ports.report('order', steps.length > 0 ? { ...order, taking: [] } : { ...order });
    return steps.length;
  }

  async #drain(virtual: Virtual): Promise<void> {
    const left = await drainVirtual(virtual, this.#ports);
    if (left > 0) this.#ports.report('drained', { realServers: left });
    else this.#memory.ipvs = virtual.observed;
  }
}

/**
 * The steps that put our jumps before foreign rules: all jumps of a table in one commit.
 * @param ours our rules in the kernel
 */
function moveFirst(taking: readonly TakingRule[], ours: NodeState): readonly Step[] {
  const tables = Map.groupBy(taking, ({ family, table }) => `${family} ${table}`);
  return [...tables.values()].map(([first, ...rest]): Step => {
    const { family, table } = first as TakingRule;
    const hooks = new Set([first, ...rest].map((one) => one?.hook));
    const jumps = tableOf(ours, family, table).jumps.filter((jump) => hooks.has(jump.split(' ', 2)[1]));
    return stepOf(family, table, jumps);
  });
}

function stepOf(family: Family, table: TableName, jumps: readonly string[]): Step {
  const text = printChange(table, { write: new Map(), drop: [], remove: jumps, insert: jumps });
  return { kind: 'restore-table', family, table, text, because: 'our jumps go before foreign rules' };
}

import { printNftTable } from '@sluice/netfilter';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import type { Invariants, NodeSnapshot } from './invariants.ts';
import { FaultPlace, type NodeKind, type NodeTemplate } from './place.ts';
import { programPoints } from './points.ts';

/** One operation of `sluiced`, from a known state of the node. */
export interface Scenario {
  readonly name: string;
  readonly from: NodeTemplate | undefined;
  readonly before: NodeSnapshot;
  readonly config: string;
  readonly args: readonly string[];
  /** The programs that packets may meet during it, by name. */
  readonly settled: ReadonlyMap<string, NodeSnapshot>;
  /** Those of them that it may end on. */
  readonly finalStates: readonly string[];
  readonly atomicScope: Invariants['atomicScope'];
}

/** One Service, with other endpoints, with a further Service, with both, and with one that has lost its only endpoint. */
const bundles = {
  one: { 'shop/web': [1, 2] },
  moved: { 'shop/web': [2, 3] },
  more: { 'shop/web': [1, 2], 'shop/cart': [50] },
  both: { 'shop/web': [2, 3], 'shop/cart': [50] },
  off: { 'shop/web': [1, 2], 'shop/cart': [] },
  /** In mode iptables. */
  iptables: { 'shop/web': [1, 2] },
} as const;

/** The state of a node before a scenario; `kept` is a release that failed, whose endpoints stay. */
type StateName = 'none' | keyof typeof bundles | 'kept';

/** A scenario in names: states are named here, as it takes minutes to make them. */
interface ScenarioPlan {
  readonly from: StateName | 'open' | 'committed';
  readonly args: readonly string[];
  readonly settled: readonly StateName[];
  readonly finalStates?: readonly StateName[];
  readonly isFailing?: true;
  /** Of a node in mode nftables alone. */
  readonly changesMode?: true;
  readonly atomicScope: Invariants['atomicScope'];
}

const apply = (bundle: keyof typeof bundles): readonly string[] => ['apply', bundle];
const release = { atomicScope: 'node' } as const;
const update = { atomicScope: 'family' } as const;
const inPlace = { atomicScope: 'table' } as const;
const ofMode = { atomicScope: 'mode', changesMode: true } as const;

/** The operations that must survive faults, from a node's first rule to its last. `apply NAME` applies the bundle of that name. */
const plans = {
  first: { from: 'none', args: apply('one'), settled: ['none', 'one'], ...release },
  apply: { from: 'one', args: apply('more'), settled: ['one', 'more'], ...release },
  update: { from: 'one', args: apply('moved'), settled: ['one', 'moved'], ...update },
  // A rolled back release leaves its endpoints.
  'apply-and-update': { from: 'one', args: apply('both'), settled: ['one', 'kept', 'both'], ...update },
  'last-endpoint': { from: 'more', args: apply('off'), settled: ['more', 'off'], ...update },
  'first-endpoint': { from: 'off', args: apply('more'), settled: ['more', 'off'], ...update },
  'probation-fails': {
    from: 'one',
    args: apply('more'),
    settled: ['one', 'more'],
    finalStates: ['one'],
    isFailing: true,
    ...release,
  },
  rollback: {
    from: 'more',
    args: ['rollback', '1', '--endpoints', 'old', '--yes'],
    settled: ['one', 'more'],
    ...inPlace,
  },
  'recover-open': { from: 'open', args: ['boot'], settled: ['one', 'more'], finalStates: ['one'], ...release },
  'recover-committed': {
    from: 'committed',
    args: ['boot'],
    settled: ['one', 'more'],
    finalStates: ['more'],
    ...release,
  },
  'from-iptables': { from: 'iptables', args: apply('one'), settled: ['iptables', 'one'], ...ofMode },
  'to-iptables': { from: 'one', args: apply('iptables'), settled: ['iptables', 'one'], ...ofMode },
  cleanup: { from: 'one', args: ['cleanup'], settled: ['none', 'one'], ...inPlace },
} as const satisfies Readonly<Record<string, ScenarioPlan>>;

export type ScenarioName = keyof typeof plans;
export const scenarioNames = Object.keys(plans) as readonly ScenarioName[];

/** @param names of the scenarios to make: only the states that they begin with are made, as each takes seconds */
export async function makeScenarios(
  place: FaultPlace,
  kind: NodeKind,
  names: readonly ScenarioName[] = scenarioNames,
): Promise<readonly Scenario[]> {
  const states = new States(place, kind);
  const scenarios: Scenario[] = [];
  for (const name of names) {
    const {
      from,
      args,
      settled,
      finalStates = settled,
      isFailing,
      changesMode,
      atomicScope,
    }: ScenarioPlan = plans[name];
    if (changesMode && kind.mode !== 'nftables') continue;
    const snapshots: (readonly [StateName, NodeSnapshot])[] = [];
    for (const state of settled) snapshots.push([state, (await states.of(state)).snapshot]);
    scenarios.push({
      name,
      from: from === 'none' ? undefined : (await states.of(from)).template,
      before: (await states.of(from === 'open' || from === 'committed' ? 'one' : from)).snapshot,
      config: isFailing ? states.failing : states.plain,
      args: args[0] === 'apply' ? ['apply', states.path(args[1] ?? '')] : args,
      settled: new Map(snapshots),
      finalStates,
      // Layout flat changes table by table, whatever the change.
      atomicScope: kind.layout === 'tree' ? atomicScope : 'table',
    });
  }
  return scenarios;
}

interface PreparedState {
  readonly template: NodeTemplate;
  readonly snapshot: NodeSnapshot;
}

/** States of a node, each made when first needed. */
class States {
  readonly plain: string;
  /** With a probe that fails as soon as the further Service is in the kernel. */
  readonly failing: string;
  readonly #place: FaultPlace;
  readonly #made = new Map<string, PreparedState>();

  constructor(place: FaultPlace, { backend, mode, isCounting }: NodeKind) {
    this.#place = place;
    for (const [name, services] of Object.entries(bundles)) {
      const own = name === 'iptables' ? name : mode;
      // Only the releases with a further Service: such a release and its rollback then change the sysctl, too.
      const sysctls = isCounting && 'shop/cart' in services ? { sysctls: ['net.netfilter.nf_conntrack_acct = 1'] } : {};
      const files = sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: own, ...sysctls });
      const table = printNftTable({ detector: 'address', masqueradeAll: false, endpointCounters: true });
      if (isCounting && own === 'nftables') files.set('profiles/default/base/first.nft', table);
      writeBundle(this.path(name), files);
    }
    const list = {
      iptables: `/usr/sbin/xtables-${backend}-multi iptables-${backend}-save`,
      nftables: '/usr/sbin/nft list table inet sluice',
    };
    const isAbsent = `! ${list[mode]} | grep -q 10.96.0.12`;
    this.plain = place.config('plain');
    this.failing = place.config('failing', `probes: [{name: cart, exec: [/bin/sh, -c, "${isAbsent}"], attempts: 1}]`);
  }

  path(bundle: string): string {
    return `${this.#place.directory}/bundles/${bundle}`;
  }

  async of(state: ScenarioPlan['from']): Promise<PreparedState> {
    const made = this.#made.get(state) ?? (await this.#make(state));
    this.#made.set(state, made);
    return made;
  }

  async #make(state: ScenarioPlan['from']): Promise<PreparedState> {
    switch (state) {
      case 'none':
        return { template: { directory: '' }, snapshot: await this.#place.bare() };
      case 'one':
      case 'iptables':
        return this.#place.keep(undefined, this.plain, ['apply', this.path(state)]);
      case 'more':
      case 'moved':
      case 'both':
        return this.#place.keep((await this.of('one')).template, this.plain, ['apply', this.path(state)]);
      case 'off':
        return this.#place.keep((await this.of('more')).template, this.plain, ['apply', this.path('off')]);
      case 'kept':
        return this.#place.keep(
          (await this.of('one')).template,
          this.failing,
          ['apply', this.path('both')],
          undefined,
          '4',
        );
      case 'open':
      case 'committed':
        return this.#cutShort(state);
    }
  }

  /** The node as a process left it that was killed on probation, or right after the commit record. */
  async #cutShort(state: 'open' | 'committed'): Promise<PreparedState> {
    const { template } = await this.of('one');
    const args = ['apply', this.path('more')];
    const { program } = await this.#place.record(template, this.plain, args);
    const points = programPoints(program, this.#place.state);
    const commitRecord = points.filter(({ call }) => call === 'pwrite64').at(-2);
    const synced = commitRecord && points[points.indexOf(commitRecord) + 1];
    if (!commitRecord || synced?.call !== 'fsync') throw new Error('found no write of the commit record');
    return this.#place.keep(template, this.plain, args, state === 'open' ? commitRecord : synced);
  }
}

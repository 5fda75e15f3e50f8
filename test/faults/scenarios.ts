import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import type { Expected, Seen } from './judge.ts';
import { FaultPlace, type Kind, type Template } from './place.ts';
import { programPoints } from './points.ts';

/** One thing that `sluiced` does, from a known state of the node on. */
export interface Scenario {
  readonly name: string;
  readonly from: Template | undefined;
  readonly before: Seen;
  readonly config: string;
  readonly args: readonly string[];
  /** The programs that packets may meet on the way, by name. */
  readonly settled: ReadonlyMap<string, Seen>;
  /** Those of them that it may end on. */
  readonly ends: readonly string[];
  readonly whole: Expected['whole'];
}

/** One Service, with other endpoints, with a further Service, with both, and with one that has lost its only endpoint. */
const bundles = {
  one: { 'shop/web': [1, 2] },
  moved: { 'shop/web': [2, 3] },
  more: { 'shop/web': [1, 2], 'shop/cart': [50] },
  both: { 'shop/web': [2, 3], 'shop/cart': [50] },
  off: { 'shop/web': [1, 2], 'shop/cart': [] },
} as const;

/** How a node is left before a scenario, and what it shows then; `kept` is a release that failed, whose endpoints stay. */
type State = 'none' | keyof typeof bundles | 'kept';

/** What a scenario does, in words: names of states instead of what it takes minutes to make. */
interface Plan {
  readonly from: State | 'open' | 'committed';
  readonly args: readonly string[];
  readonly settled: readonly State[];
  readonly ends?: readonly State[];
  readonly isFailing?: true;
  readonly whole: Expected['whole'];
}

const apply = (bundle: keyof typeof bundles): readonly string[] => ['apply', bundle];
const release = { whole: 'node' } as const;
const update = { whole: 'family' } as const;
const inPlace = { whole: 'table' } as const;

/** Everything that must hold under faults: what a node does from its first rule to its last. `apply NAME` takes the bundle of that name. */
const plans = {
  first: { from: 'none', args: apply('one'), settled: ['none', 'one'], ...release },
  apply: { from: 'one', args: apply('more'), settled: ['one', 'more'], ...release },
  update: { from: 'one', args: apply('moved'), settled: ['one', 'moved'], ...update },
  // A release that is taken back leaves the endpoints that came with it.
  'apply-and-update': { from: 'one', args: apply('both'), settled: ['one', 'kept', 'both'], ...update },
  'last-endpoint': { from: 'more', args: apply('off'), settled: ['more', 'off'], ...update },
  'first-endpoint': { from: 'off', args: apply('more'), settled: ['more', 'off'], ...update },
  'trial-fails': {
    from: 'one',
    args: apply('more'),
    settled: ['one', 'more'],
    ends: ['one'],
    isFailing: true,
    ...release,
  },
  rollback: {
    from: 'more',
    args: ['rollback', '1', '--endpoints', 'old', '--yes'],
    settled: ['one', 'more'],
    ...inPlace,
  },
  'recover-open': { from: 'open', args: ['boot'], settled: ['one', 'more'], ends: ['one'], ...release },
  'recover-committed': { from: 'committed', args: ['boot'], settled: ['one', 'more'], ends: ['more'], ...release },
  cleanup: { from: 'one', args: ['cleanup'], settled: ['none', 'one'], ...inPlace },
} as const satisfies Readonly<Record<string, Plan>>;

export type ScenarioName = keyof typeof plans;
export const scenarioNames = Object.keys(plans) as readonly ScenarioName[];

/** @param names those that are wanted: what the others begin with is not made, and each state takes seconds */
export async function makeScenarios(
  place: FaultPlace,
  kind: Kind,
  names: readonly ScenarioName[] = scenarioNames,
): Promise<readonly Scenario[]> {
  const states = new States(place, kind);
  const scenarios: Scenario[] = [];
  for (const name of names) {
    const { from, args, settled, ends = settled, isFailing, whole }: Plan = plans[name];
    const seen: (readonly [State, Seen])[] = [];
    for (const state of settled) seen.push([state, (await states.of(state)).seen]);
    scenarios.push({
      name,
      from: from === 'none' ? undefined : (await states.of(from)).template,
      before: (await states.of(from === 'open' || from === 'committed' ? 'one' : from)).seen,
      config: isFailing ? states.failing : states.plain,
      args: args[0] === 'apply' ? ['apply', states.path(args[1] ?? '')] : args,
      settled: new Map(seen),
      ends,
      // Layout flat changes table by table, whatever the change.
      whole: kind.layout === 'tree' ? whole : 'table',
    });
  }
  return scenarios;
}

interface Made {
  readonly template: Template;
  readonly seen: Seen;
}

/** States of a node, each made when it is asked for first. */
class States {
  readonly plain: string;
  /** With a probe that is bad as soon as the further Service is in the kernel. */
  readonly failing: string;
  readonly #place: FaultPlace;
  readonly #made = new Map<string, Made>();

  constructor(place: FaultPlace, { backend }: Kind) {
    this.#place = place;
    for (const [name, services] of Object.entries(bundles))
      writeBundle(this.path(name), sampleBundle({ services, families: ['ipv4', 'ipv6'] }));
    const isAbsent = `! /usr/sbin/xtables-${backend}-multi iptables-${backend}-save | grep -q 10.96.0.12`;
    this.plain = place.config('plain');
    this.failing = place.config('failing', `probes: [{name: cart, exec: [/bin/sh, -c, "${isAbsent}"], attempts: 1}]`);
  }

  path(bundle: string): string {
    return `${this.#place.directory}/bundles/${bundle}`;
  }

  async of(state: Plan['from']): Promise<Made> {
    const made = this.#made.get(state) ?? (await this.#make(state));
    this.#made.set(state, made);
    return made;
  }

  async #make(state: Plan['from']): Promise<Made> {
    switch (state) {
      case 'none':
        return { template: { directory: '' }, seen: await this.#place.bare() };
      case 'one':
        return this.#place.keep(undefined, this.plain, ['apply', this.path('one')]);
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

  /** The node as a process left it that ended on trial, or right behind the commit token. */
  async #cutShort(state: 'open' | 'committed'): Promise<Made> {
    const { template } = await this.of('one');
    const args = ['apply', this.path('more')];
    const { program } = await this.#place.record(template, this.plain, args);
    const points = programPoints(program, this.#place.state);
    const token = points.filter(({ call }) => call === 'pwrite64').at(-2);
    const synced = token && points[points.indexOf(token) + 1];
    if (!token || synced?.call !== 'fsync') throw new Error('the commit token was not found');
    return this.#place.keep(template, this.plain, args, state === 'open' ? token : synced);
  }
}

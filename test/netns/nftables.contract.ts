import { setTimeout as sleep } from 'node:timers/promises';
import type { NftState, Placement } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type NftSteps,
  planNftInPlace,
  planNftProbation,
  planNftRemoval,
} from '../../packages/applier/src/ports/nftables/plan.ts';
import { repairTable } from '../../packages/applier/src/ports/nftables/repair.ts';
import { nftStates, otherSettings } from '../../packages/applier/src/ports/nftables/states.fixture.ts';
import type { NftStep } from '../../packages/applier/src/ports/nftables/values.ts';
import type { Kernel } from '../../packages/applier/src/ports/kernel.ts';

/** A kernel without the table, with a way for another program to change it, and a way to advance its clock. */
export interface NftCandidate {
  readonly kernel: Kernel;
  readonly foreign: (text: string) => Promise<void>;
  readonly passMs?: (ms: number) => void;
  /** Pairs of random states. */
  readonly pairs: number;
}

const cart = '10.96.0.10 . tcp . 80';
const lines = (...pods: readonly number[]): readonly string[] => [
  'cluster-ip',
  ...pods.map((n) => `endpoint 10.244.1.${n} . 8080`),
];
const stateOf = (frontends: Readonly<Record<string, readonly string[]>>): NftState => ({
  settings: ['table 4 address', 'pods 10.244.0.0/16', 'node 192.0.2.11'],
  frontends: new Map(Object.entries(frontends)),
});
const [old, fresh] = [stateOf({ [cart]: lines(1, 2) }), stateOf({ [cart]: lines(3) })];
const nothing = { mend: [], held: undefined, exists: false };

/**
 * The contract of mode nftables: what plans and the dead-man switch rely on.
 * @param open gives a kernel without the table
 */
export function nftContract(name: string, open: () => Promise<NftCandidate>): void {
  const carry = async (kernel: Kernel, ...parts: readonly (readonly NftStep[])[]): Promise<Placement | undefined> => {
    for (const step of parts.flat()) await kernel.apply(step);
    return parts.flat().at(-1)?.leadsTo;
  };
  const all = ({ first, late }: NftSteps): readonly NftStep[] => [...first, ...late];
  const differences = async (kernel: Kernel, state: NftState): Promise<string> => {
    const { first, late } = repairTable(await kernel.nft?.observe(), state);
    return `${first}${late}`;
  };
  const loaded = async (state: NftState): Promise<NftCandidate & { readonly held: Placement }> => {
    const candidate = await open();
    const held = await carry(candidate.kernel, all(planNftInPlace(nothing, state)));
    return { ...candidate, held: held as Placement };
  };
  /** The endpoints that a map leads packets to shop/cart to. */
  const servedBy = async (kernel: Kernel, map: 'svc4' | 'tsvc4'): Promise<readonly string[]> => {
    const observed = await kernel.nft?.observe();
    const verdict = observed?.elements.get(map)?.get('10.96.0.10 . 6 . 80') ?? '';
    const [, count, half] = /^goto n(\d+)(b?)$/.exec(verdict) ?? [];
    return Array.from({ length: Number(count ?? 0) }, (_, at) => {
      const slot = at + (half === 'b' ? 65_536 : 0);
      return observed?.elements.get('tcp4')?.get(`10.96.0.10 . 80 . ${slot}`) ?? 'nothing';
    });
  };

  test(`${name}: there is no table, then it holds what was loaded, then it is gone`, async () => {
    const { kernel } = await open();
    expect(await kernel.nft?.lack()).toBeUndefined();
    expect([await kernel.nft?.exists(), await kernel.nft?.observe()]).toEqual([false, undefined]);
    await carry(kernel, all(planNftInPlace(nothing, old)));
    expect(await kernel.nft?.exists()).toBe(true);
    expect(await differences(kernel, old)).toBe('');
    expect(await servedBy(kernel, 'svc4')).toEqual(['10.244.1.1 . 8080', '10.244.1.2 . 8080']);
    await carry(kernel, planNftRemoval({ exists: true }));
    expect(await kernel.nft?.exists()).toBe(false);
  });

  test(`${name}: a transaction is taken whole or not at all`, async () => {
    const { kernel, held } = await loaded(old);
    const before = await kernel.nft?.observe();
    const step = (text: string): NftStep => ({
      kind: 'nft',
      text,
      because: 'the contract suite needs it',
      leadsTo: held,
    });
    const good = 'add element inet sluice svc4 { 10.96.0.99 . 6 . 80 : drop }\n';
    for (const bad of [
      'delete element inet sluice svc4 { 10.96.0.98 . 6 . 80 }\n',
      'add element inet sluice svc4 { 10.96.0.10 . 6 . 80 : drop }\n',
      'add element inet sluice svc4 { 10.96.0.98 . 6 . 80 : goto n77 }\n',
      'add element inet sluice nosuch { 10.96.0.98 }\n',
    ])
      await expect(kernel.apply(step(good + bad)), `with ${bad}`).rejects.toThrow('Cannot run');
    expect(await kernel.nft?.observe()).toEqual(before);
  });

  test(`${name}: a release on probation is met while the switch is on, and becomes the default`, async () => {
    const { kernel, held } = await loaded(old);
    const { stage, defaults, finish } = planNftProbation({ mend: [], held, exists: true }, old, fresh);
    await kernel.switch?.make([], false, true);
    await carry(kernel, stage);
    expect(await kernel.switch?.look()).toEqual({ nat: 'off', filter: 'off' });
    expect([await servedBy(kernel, 'svc4'), await servedBy(kernel, 'tsvc4')]).toEqual([
      ['10.244.1.1 . 8080', '10.244.1.2 . 8080'],
      ['10.244.1.3 . 8080'],
    ]);
    await kernel.switch?.on(30);
    await kernel.switch?.on(30);
    expect(await kernel.switch?.look()).toEqual({ nat: 'on', filter: 'on' });
    await kernel.switch?.on(0);
    expect(await kernel.switch?.look()).toEqual({ nat: 'pinned', filter: 'pinned' });
    await carry(kernel, defaults, finish);
    expect(await kernel.switch?.look()).toBeUndefined();
    expect(await differences(kernel, fresh)).toBe('');
    expect(await servedBy(kernel, 'svc4')).toEqual(['10.244.1.3 . 8080']);
  });

  test(`${name}: the switch expires by itself, and cannot be renewed then`, async () => {
    const { kernel, held, passMs } = await loaded(old);
    const pass = async (ms: number): Promise<void> => {
      await (passMs ? passMs(ms) : sleep(ms));
    };
    await kernel.switch?.make([], false, true);
    await carry(kernel, planNftProbation({ mend: [], held, exists: true }, old, fresh).stage);
    await kernel.switch?.on(4);
    await pass(2_500);
    await kernel.switch?.on(4);
    // Later than the first time-out, with room for a busy machine before the second one.
    await pass(2_500);
    expect((await kernel.switch?.look())?.nat, 'renewed').toBe('on');
    await pass(2_500);
    expect((await kernel.switch?.look())?.nat).toBe('off');
    await expect(kernel.switch?.on(4)).rejects.toThrow('Cannot run');
    expect((await kernel.switch?.look())?.nat).toBe('off');
    await kernel.switch?.off('nat');
    await kernel.switch?.remove();
  });

  test(`${name}: a switch for some sources, and off at once`, async () => {
    const { kernel, held } = await loaded(old);
    await carry(kernel, planNftProbation({ mend: [], held, exists: true }, old, fresh).stage);
    await kernel.switch?.make(['10.244.7.0/24', '10.244.7.9', 'fd00:7::/64'], false, true);
    await kernel.switch?.on(30);
    await kernel.switch?.on(30);
    const trial = async (): Promise<readonly string[]> => [
      ...((await kernel.nft?.observe())?.elements.get('trial4')?.keys() ?? []),
    ];
    expect(await trial()).toEqual(['10.244.7.0/24']);
    await kernel.switch?.off('nat');
    expect(await trial()).toEqual([]);
    expect(await kernel.switch?.look()).toEqual({ nat: 'off', filter: 'off' });
  });

  test(`${name}: what another program did is found and put right`, async () => {
    const { kernel, foreign } = await loaded(old);
    for (const text of [
      'delete element inet sluice svc4 { 10.96.0.10 . 6 . 80 }\n',
      'add element inet sluice loop4 { 192.0.2.1 . 192.0.2.2 }\n',
      'delete element inet sluice pods4 { 10.244.0.0/16 }\nadd element inet sluice pods4 { 10.0.0.0/8 }\n',
      'flush chain inet sluice n2\n',
      'flush chain inet sluice masquerade6\n',
      'add rule inet sluice services4 accept\n',
      'add element inet sluice trial4 { 0.0.0.0/0 timeout 60s }\n',
      'add chain inet sluice other { type filter hook input priority 5; policy accept; }\nadd rule inet sluice other tcp dport 80 drop\n',
      [
        'add chain inet sluice other-1',
        'add chain inet sluice other-2',
        'add map inet sluice others { type ipv4_addr : verdict; }',
        'add element inet sluice others { 192.0.2.9 : goto other-2 }',
        'add rule inet sluice other-1 ip daddr vmap @others',
        'add rule inet sluice other-2 goto n2',
        'add element inet sluice svc4 { 10.96.0.99 . 6 . 80 : goto other-1 }',
        '',
      ].join('\n'),
      'add set inet sluice own4 { type ipv4_addr; flags interval; }\nadd element inet sluice own4 { 192.0.2.0/24 }\n',
      'add counter inet sluice other\n',
      'delete table inet sluice\n',
    ]) {
      await foreign(text);
      const { first, late, afterFirst, afterLate } = repairTable(await kernel.nft?.observe(), old);
      expect(first + late, `after ${text}`).not.toBe('');
      const steps = [
        { text: first, leadsTo: afterFirst },
        { text: late, leadsTo: afterLate },
      ].filter(({ text: its }) => its !== '');
      for (const step of steps) await kernel.apply({ kind: 'nft', because: 'repair', ...step });
      expect(await differences(kernel, old), `after ${text}`).toBe('');
    }
  });

  test(`${name}: any state follows any other one, in place and by probation, with what was foretold`, async () => {
    const { kernel, pairs } = await open();
    let held: Placement | undefined;
    const wrong: string[] = [];
    const settle = async (next: Placement | undefined): Promise<void> => {
      held = next;
      if (held) wrong.push(await differences(kernel, held.state));
    };
    const step = async (state: NftState, how: 'in place' | 'probation' | 'back'): Promise<void> => {
      const table = { mend: [], held, exists: held !== undefined };
      const isSame = held?.state.settings.join() === state.settings.join();
      if (!held || how === 'in place' || !isSame) {
        const steps = all(planNftInPlace(table, state));
        await settle((await carry(kernel, steps)) ?? held);
        return;
      }
      const { stage, defaults, finish } = planNftProbation({ ...table, held }, held.state, state);
      const staged = await carry(kernel, stage);
      if (how === 'probation') return settle((await carry(kernel, defaults, finish)) ?? held);
      const to = held.state;
      const back = planNftInPlace({ mend: [], held: staged ?? held, exists: true }, to);
      return settle((await carry(kernel, all(back))) ?? staged ?? held);
    };
    const change = fc.tuple(
      fc.oneof({ weight: 5, arbitrary: nftStates() }, { weight: 1, arbitrary: nftStates(otherSettings) }),
      fc.constantFrom('in place', 'probation', 'back' as const),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 2, maxLength: 6 }), async (changes) => {
        for (const [state, how] of changes) await step(state, how);
        expect(wrong.filter((text) => text !== '')).toEqual([]);
      }),
      { ...runs(pairs), endOnFailure: true },
    );
  });
}

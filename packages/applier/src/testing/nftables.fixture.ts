import { allElements, type Placement, readFrontend, settingsElements, settledPlacement } from '@sluice/netfilter';
import { nftBundle, nftServices } from '../../../bundle/src/virtual/nft.fixture.ts';
import type { FakeKernel } from '../kernel/fake/fake.fixture.ts';
import type { ObservedNft } from '../ports/nftables/observed.ts';
import type { Kernel } from '../ports/kernel.ts';
import type { NodeState } from '../ports/node-state.ts';

/** For tests only: the table of mode nftables of a fake kernel, as packets and an observer see it. */

export const cartKey = '10.96.0.10 . tcp . 80';
export const pod = (n: number): string => `10.244.1.${n} . 8080`;

/** Maglev tables have thousands of slots, which crash tests would read at each call. */
const { 'shop/chosen': _chosen, ...withoutTables } = nftServices;

/** A bundle in mode nftables, with Service shop/cart on some pods, and perhaps another one. */
export function cartBundle(pods: readonly number[], more: Readonly<Record<string, string>> = {}): Map<string, string> {
  const lines = [
    '# shop/cart ClusterIP',
    'add element inet sluice cluster4 { 10.96.0.10 }',
    'add element inet sluice svc4 { 10.96.0.10 . tcp . 80 : goto n${count} }',
    'add element inet sluice none4 { 10.96.0.10 . tcp . 80 : drop }',
    ...pods.map((n) => `add element inet sluice tcp4 { 10.96.0.10 . 80 . \${slot} : ${pod(n)} }`),
    ...pods.map((n) => `add element inet sluice loop4 { 10.244.1.${n} . 10.244.1.${n} }`),
  ];
  return new Map(nftBundle({ ...withoutTables, 'shop/cart': lines.map((line) => `${line}\n`).join(''), ...more }));
}

/** The endpoints that serve packets to a frontend, in the order of their slots; a hole is `nothing`. */
export function servedBy(observed: ObservedNft, key: string): readonly string[] {
  const numbered = key.replace(' . tcp . ', ' . 6 . ').replace(' . udp . ', ' . 17 . ');
  const [address, protocol, port] = key.split(' . ') as [string, string, string];
  const n = key.includes(':') ? '6' : '4';
  const on = (observed.elements.get(`trial${n}`)?.size ?? 0) > 0;
  const map = on && observed.elements.get(`tkey${n}`)?.has(numbered) ? `tsvc${n}` : `svc${n}`;
  const verdict = observed.elements.get(map)?.get(numbered) ?? '';
  const [, count, time, half] = /^goto p?[ns](\d+)(t\d+)?(b?)$/.exec(verdict) ?? [];
  const first = half === 'b' ? 65_536 : 0;
  return Array.from({ length: Number(count ?? 0) }, (_, at) => {
    if (time === undefined)
      return observed.elements.get(`${protocol}${n}`)?.get(`${address} . ${port} . ${first + at}`) ?? 'nothing';
    const id = observed.elements.get(`slot${n}`)?.get(`${numbered} . ${first + at}`) ?? '';
    return observed.elements.get(`id${half}${n}`)?.get(`${numbered} . ${id}`) ?? 'nothing';
  });
}

/** A kernel that calls `look` after each change of the table, also a failed one. */
export function watched(kernel: Kernel, look: () => Promise<void>): Kernel {
  const { switch: its } = kernel;
  const after = async (work: Promise<void>): Promise<void> => {
    try {
      await work;
    } finally {
      await look();
    }
  };
  return {
    ...kernel,
    apply: (step) => after(kernel.apply(step)),
    ...(its
      ? { switch: { ...its, on: (seconds) => after(its.on(seconds)), off: (table) => after(its.off(table)) } }
      : {}),
  };
}

/** Whether packets to every frontend are served as one of some states says; frontends that not all have may be unserved. */
export function meetsOneOf(observed: ObservedNft, states: readonly NodeState[]): boolean {
  const keys = new Set(states.flatMap(({ nft }) => [...(nft?.frontends.keys() ?? [])]));
  return [...keys].every((key) => {
    const served = servedBy(observed, key).toSorted().join();
    return states.some(({ nft }) => {
      const lines = nft?.frontends.get(key);
      const endpoints = lines ? readFrontend(key, lines).endpoints : [];
      return endpoints.toSorted().join() === served;
    });
  });
}

/** The elements of a table that holds a state and nothing else, in the halves that the kernel shows; and those that it has. */
export async function settledElements(
  kernel: Pick<FakeKernel, 'nft'>,
  state: NodeState | undefined,
): Promise<{ readonly held: readonly string[]; readonly expected: readonly string[] }> {
  const observed = await kernel.nft.observe();
  const elements = [...(observed?.elements ?? [])].flatMap(([set, all]) =>
    [...all].map(([key, value]) => `${set} ${key} ${value}`),
  );
  if (!state?.nft) return { held: elements.toSorted(), expected: [] };
  const inHalfB: Placement['inHalfB'] = new Map(
    ['svc4', 'out4', 'svc6', 'out6'].flatMap((name) =>
      [...(observed?.elements.get(name) ?? [])].flatMap(([key, verdict]) =>
        verdict.endsWith('b')
          ? [[key.replace(' . 6 . ', ' . tcp . ').replace(' . 17 . ', ' . udp . '), true] as const]
          : [],
      ),
    ),
  );
  const own = [...allElements(settledPlacement(state.nft, inHalfB)).values()].map(({ element }) => element);
  const all = [...own, ...settingsElements(state.nft.settings)].map(({ set, key, value }) => `${set} ${key} ${value}`);
  return { held: elements.toSorted(), expected: [...new Set(all)].toSorted() };
}

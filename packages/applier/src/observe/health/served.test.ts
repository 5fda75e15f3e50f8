import type { BundleFiles } from '@sluice/bundle';
import { afterEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { hash16, sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { servedBy } from './active.ts';

let node: Scene = scene();
afterEach(() => node.end());

/** A bundle in which Service shop/gate has endpoints on this node and on another one, by the last parts of their addresses. */
type Make = (here: readonly number[], there?: readonly number[]) => BundleFiles;

const rules: Make = (here, there = [9]) => {
  const [svc, svl] = ['SVC', 'SVL'].map((kind) => `KUBE-${kind}-${hash16('shop/gate')}`) as [string, string];
  const own = here.map((n) => `10.244.1.${n}`);
  const all = [...own, ...there.map((n) => `10.244.2.${n}`)];
  const sep = (address: string): string => `KUBE-SEP-${hash16(address)}`;
  const choices = (chain: string, some: readonly string[], guard = ''): readonly string[] =>
    some.map((one, at) => {
      const left = some.length - at;
      const chance = left > 1 ? ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}` : '';
      return `${guard}-A ${chain} -m comment --comment "shop/gate -> ${one}:8080"${chance} -j ${sep(one)}`;
    });
  const lines = [
    '*nat',
    ...[svc, svl, ...all.map(sep)].map((chain) => `:${chain} - [0:0]`),
    `-A KUBE-SERVICES -m tcp -p tcp -d 10.96.0.50 --dport 80 -j ${svc}`,
    `@local=${svl} -A KUBE-SERVICES -m tcp -p tcp -d 203.0.113.50 --dport 80 -j ${svl}`,
    ...choices(svc, all),
    ...choices(svl, own, `@node=${sampleNode} `),
    ...choices(svl, all.slice(own.length), '@node=node-b '),
    ...all.map((one) => `-A ${sep(one)} -m comment --comment shop/gate -s ${one} -j KUBE-MARK-MASQ`),
    ...all.map((one) => `-A ${sep(one)} -m tcp -p tcp -j DNAT --to-destination ${one}:8080`),
    'COMMIT',
  ];
  return sampleBundle().set('profiles/default/services/shop/gate.iptables', `${lines.join('\n')}\n`);
};

/** A bundle of the mode without the Service. */
function without(mode: string): BundleFiles {
  if (mode.startsWith('ipvs')) return ipvsBundle;
  return sampleBundle(mode === 'nftables' ? { mode } : {});
}

const servers =
  (frontend: string): Make =>
  (here, there = [9]) => {
    const own = here.map((n) => `10.244.1.${n}`);
    const all = [...own, ...there.map((n) => `10.244.2.${n}`)];
    const real = (at: string, to: string, guard = ''): string => `${guard}-a -t ${at} -r ${to}:8080 -m -w 1`;
    const lines = [
      '-A -t 10.96.0.50:80 -s rr',
      ...all.map((one) => real('10.96.0.50:80', one)),
      `-A -t ${frontend} -s rr`,
      ...own.map((one) => real(frontend, one, `@node=${sampleNode} `)),
      ...all.map((one) => real(frontend, one, `@nolocal=${frontend}/TCP `)),
    ];
    return new Map([...ipvsBundle, ['profiles/default/services/shop/gate.ipvs', `${lines.join('\n')}\n`]]);
  };

const table: Make = (here, there = [9]) => {
  const own = here.map((n) => `10.244.1.${n}`);
  const all = [...own, ...there.map((n) => `10.244.2.${n}`)];
  const key = '203.0.113.50 . tcp . 80';
  const line = (set: string, element: string, guard = ''): string =>
    `${guard}add element inet sluice ${set} { ${element} }`;
  const lines = [
    line('svc4', `${key} : goto n\${count}`),
    line('near4', key),
    line('out4', `${key} : goto l\${localCount}`),
    line('none4', `${key} : drop`),
    ...all.map((one) => line('tcp4', `203.0.113.50 . 80 . \${slot} : ${one} . 8080`)),
    ...own.map((one) => line('tcp4', `203.0.113.50 . 80 . \${localSlot} : ${one} . 8080`, `@node=${sampleNode} `)),
    ...there.map((n) => line('tcp4', `203.0.113.50 . 80 . \${localSlot} : 10.244.2.${n} . 8080`, '@node=node-b ')),
  ];
  return sampleBundle({ mode: 'nftables' }).set('profiles/default/services/shop/gate.nft', `${lines.join('\n')}\n`);
};

describe.each([
  ['flat', rules],
  ['nftables', table],
  ['tree', rules],
  ['ipvs', servers('203.0.113.50:80')],
  ['ipvs, by a node port', servers('${host.nodePortAddresses}:30090')],
] as const)('%s', (mode, make) => {
  /** Whether what active with one bundle serves the Service that another one has. */
  async function isServed(active: BundleFiles, offered: BundleFiles): Promise<boolean> {
    node = scene();
    node.layout = mode === 'tree' ? 'tree' : 'flat';
    const { reconciler, journal } = await node.start();
    expect(await reconciler.put(active, false)).toMatchObject({ kind: 'confirmed' });
    return servedBy(
      journal.active?.state ?? { families: {} },
      offered,
      sampleNode,
    )({ namespace: 'shop', name: 'gate' });
  }

  test.each<readonly [string, BundleFiles, BundleFiles, boolean]>([
    ['the endpoint of this node stands', make([5]), make([5]), true],
    ['one of several does', make([6, 7]), make([5, 6]), true],
    ['many do, in groups', make(Array.from({ length: 40 }, (_, n) => n + 10)), make([5, 49]), true],
    ['none does', make([]), make([5]), false],
    ['another one does', make([6]), make([5]), false],
    ['one of another node does', make([], [5]), make([], [5]), false],
    ['the Service does not', without(mode), make([5]), false],
  ])('%s', async (_title, active, offered, served) => {
    expect(await isServed(active, offered)).toBe(served);
  });
});

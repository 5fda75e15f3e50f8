import type { BundleFiles } from '@sluice/bundle';
import { atTier, randomOf, seed } from '@sluice/testing';
import { expect, test } from 'vitest';
import { diffBundles } from '../../packages/review/src/diff/diff.ts';
import { destinationsOf } from '../../packages/review/src/flows/destinations.ts';
import { flowRows } from '../../packages/review/src/flows/flows.ts';
import { nodesOfProfile } from '../../packages/review/src/bundle/node.ts';
import { Memory } from '../../packages/review/src/bundle/memory.ts';
import { bundleOf, type Short } from '../../packages/review/src/policy/bundle.fixture.ts';
import { equivalentDestinations } from '../../packages/review/src/flows/shapes.ts';
import { type BundleView, viewOf } from '../../packages/review/src/bundle/view.ts';

const rounds = atTier({ quick: 2, test: 20, soak: 300 });
const base = 'profiles/default/base/first.iptables';
const count = 24;

/** Services of a few shapes, some of which have endpoints on a node's own address, affinity, or a different kind of address. */
const services = Array.from({ length: count }, (_, at): Short => {
  const kind = at % 6;
  const pods = [`10.244.1.${at + 10} node-a z1`, `10.244.2.${at + 10} node-b z2`];
  return {
    name: `web-${at}`,
    clusterIPs: [`10.96.1.${at + 1}`],
    type: kind === 1 ? 'NodePort' : kind === 5 ? 'LoadBalancer' : 'ClusterIP',
    endpoints: kind === 2 ? ['192.0.2.11 node-a z1'] : kind === 3 ? [] : pods,
    spec: [
      ...(kind === 4 ? ['sessionAffinity: ClientIP'] : []),
      ...(kind === 3 ? [`externalIPs: [203.0.113.${at + 1}]`] : []),
      ...(kind === 1
        ? [`ports: [{ name: http, port: ${80 + (at % 2)}, targetPort: 8080, nodePort: ${30_000 + at} }]`]
        : []),
    ],
    ...(kind === 5 ? { ingress: [`203.0.113.${at + 101}`] } : {}),
  };
});
const bundles = { iptables: bundleOf(services), ipvs: bundleOf(services, '    mode: ipvs\n') };

/** A random edit of a base file: some of them concern only one Service. */
function editOf(random: () => number, mode: keyof typeof bundles): readonly [RegExp, string] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const at = Math.floor(random() * count);
  const address = pick([
    `10.96.1.${at + 1}`,
    `10.96.1.0/${24 + Math.floor(random() * 8)}`,
    '10.96.0.0/12',
    `203.0.113.${at + 1}`,
  ]);
  const source = pick([
    `10.244.1.${at + 10}`,
    `10.244.1.${at + 10}/30`,
    '10.244.2.0/24',
    '192.0.2.11',
    '198.51.100.0/24',
  ]);
  const nat = /(?<=\*nat\n(?::.*\n)*)(?=-A)/;
  return pick([
    [/^-A KUBE-MARK-MASQ .*\n/m, ''],
    [/ --random-fully/, ''],
    [/^-A KUBE-POSTROUTING .*RETURN\n/m, ''],
    [/0x00004000/g, '0x00008000'],
    [/^-A KUBE-SERVICES .*KUBE-CLUSTER-IP dst,dst -j ACCEPT\n/m, ''],
    [/^-A KUBE-IPVS-FILTER .*REJECT.*\n/m, ''],
    [nat, `-A KUBE-SERVICES -d ${address} -j KUBE-MARK-MASQ\n`],
    [nat, `-A KUBE-SERVICES -s ${source} -j KUBE-MARK-MASQ\n`],
    [nat, `-A KUBE-SERVICES ! -s ${source} -d ${address} -j KUBE-MARK-MASQ\n`],
    [nat, `-A KUBE-SERVICES -p tcp -m tcp --dport ${pick([80, 81, 8080])} -j KUBE-MARK-MASQ\n`],
    [
      nat,
      `-A ${mode === 'ipvs' ? 'KUBE-NODE-PORT' : 'KUBE-NODEPORTS'} -p tcp -m tcp --dport ${30_000 + at} -j KUBE-MARK-MASQ\n`,
    ],
    [nat, '-A KUBE-SERVICES -i pod0 -j KUBE-MARK-MASQ\n'],
    [nat, '-A KUBE-SERVICES -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ\n'],
    [/(?<=\*filter\n(?::.*\n)*)(?=-A)/, `-A KUBE-FORWARD -d ${source} -p tcp -m tcp --dport 8080 -j DROP\n`],
    [/(?<=\*filter\n(?::.*\n)*)(?=-A)/, `-A KUBE-PROXY-FIREWALL -s ${source} -j DROP\n`],
  ] as const);
}

const view = (of: BundleFiles, memory: Memory): BundleView => {
  const made = viewOf(of, memory);
  return made;
};

test.each(['iptables', 'ipvs'] as const)(
  `in mode %s a change that spares one Service of a shape spares all of them`,
  { timeout: 60_000 },
  (mode) => {
    const files = bundles[mode];
    const random = randomOf(seed);
    const seen = { groups: 0, spared: 0, changed: 0 };
    for (let round = 0; round < rounds; round++) {
      const [from, to] = editOf(random, mode);
      const memory = new Memory();
      const fresh = new Map([...files, [base, files.get(base)!.replaceAll(new RegExp(from, 'g'), to)] as const]);
      const views = [view(files, memory), view(fresh, memory)];
      const sides = { views, profiles: ['default', 'default'], family: 'ipv4' } as const;
      const index = views[0]!.index('default', 'ipv4');
      const destinations = destinationsOf('ipv4', [{ index, paths: index.paths }]);
      const nodes = nodesOfProfile(views[0]!, 'default');
      for (const group of equivalentDestinations(sides, destinations)) {
        const isChanged = group.map((destination) =>
          [...flowRows(views, { ...sides, destinations: [destination], nodes })].some(
            ({ outcomes: [old, now] }) => old!.key !== now!.key,
          ),
        );
        expect({ edit: `${from} ${to}`, group, isChanged }).toEqual({
          edit: `${from} ${to}`,
          group,
          isChanged: group.map(() => isChanged[0]),
        });
        if (group.length > 1) seen.groups++;
        if (isChanged[0]) seen.changed++;
        else seen.spared += group.length - 1;
      }
    }
    // Two rounds may change nothing.
    for (const number of Object.values(seen)) expect(number).toBeGreaterThan(atTier({ quick: -1, test: 20 }));
  },
);

test('a change for all Services of a shape is a changed flow of each', () => {
  const files = bundles.iptables;
  const unmarked = new Map([...files, [base, files.get(base)!.replace(/^-A KUBE-MARK-MASQ .*\n/m, '')] as const]);
  const named = diffBundles(files, unmarked).flows.flatMap(({ destination }) => destination.services);
  const served = services.filter(({ endpoints = [] }) => endpoints.length > 0).map(({ name }) => `shop/${name}`);
  expect(new Set(named)).toEqual(new Set(served));
});

import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nodesOf, summariseNode } from '../node.ts';
import { ResolveCache } from '../resolve-cache.ts';

const profile = (mode: string, value: string): string =>
  `apiVersion: sluice.dev/v1alpha1\nkind: Profile\nmode: ${mode}\nfamilies: [ipv4]\nneeds: []\nnodePortAddresses: []\nvalues: { ipv4: { clusterCIDR: ${value} } }\n`;

const names = ['node-a', 'node-b', 'node-c', 'node-d', 'node-e'];

/** Guards and variables of each kind: what a file may ask of a node. */
const guards = [
  '',
  '@node=node-a ',
  '@node!=node-b,node-c ',
  '@zone=a ',
  '@zone!=a,b ',
  '@ip-in=192.0.2.0/30 ',
  '@ip-not-in=192.0.2.4/30 ',
];
const lineOf = {
  iptables: (guard: string, last: number): string =>
    `${guard}-A KUBE-SERVICES -d 10.96.0.${last} ! -s \${profile.clusterCIDR} -j RETURN`,
  nftables: (guard: string, last: number): string => `${guard}add element inet sluice cluster4 { 10.96.0.${last} }`,
};

type Files = ReadonlyMap<string, string>;

const fileOf = (mode: keyof typeof lineOf, lines: readonly (readonly [string, number])[]): string => {
  const text = lines.map(([guard, last]) => `${lineOf[mode](guard, last)}\n`).join('');
  return mode === 'iptables' ? `*nat\n${text}COMMIT\n` : text;
};

const edit = fc.oneof(
  fc.record({
    service: fc.constantFrom('web', 'cart', 'mail'),
    lines: fc.option(fc.array(fc.tuple(fc.constantFrom(...guards), fc.integer({ min: 1, max: 3 })), { maxLength: 3 })),
  }),
  fc.record({ node: fc.constantFrom(...names), zone: fc.constantFrom('a', 'b'), last: fc.integer({ min: 1, max: 6 }) }),
  fc.record({ gone: fc.constantFrom(...names.slice(1)) }),
  fc.record({ value: fc.constantFrom('10.244.0.0/16', '10.245.0.0/16') }),
  fc.constant({ isRefused: true }),
);
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

function edited(files: Files, change: Edit, mode: keyof typeof lineOf): Files {
  const next = new Map(files);
  const pathOf = (service: string): string =>
    `profiles/default/services/shop/${service}.${mode === 'iptables' ? mode : 'nft'}`;
  if ('service' in change && change.lines) next.set(pathOf(change.service), fileOf(mode, change.lines));
  else if ('service' in change) next.delete(pathOf(change.service));
  else if ('node' in change)
    next.set(
      `nodes/${change.node}/node.yaml`,
      `apiVersion: sluice.dev/v1alpha1\nkind: Node\nprofile: default\nzone: ${change.zone}\nvalues: { ipv4: { address: 192.0.2.${change.last} } }\n`,
    );
  else if ('gone' in change) next.delete(`nodes/${change.gone}/node.yaml`);
  else if ('value' in change) next.set('profiles/default/profile.yaml', profile(mode, change.value));
  else next.set(pathOf('web'), 'no rule at all\n');
  return next;
}

test.each(['iptables', 'nftables'] as const)(
  'mode %s: versions of many nodes, over a history of changes, are those that each node computes',
  (mode) => {
    const cluster =
      'apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nformat: 1\nname: shop\ncomplete: true\nserviceCIDRs: [10.96.0.0/12]\n';
    const empty: Files = new Map([
      ['cluster.yaml', cluster],
      ['profiles/default/profile.yaml', profile(mode, '10.244.0.0/16')],
      ...(mode === 'iptables'
        ? [['profiles/default/base/first.iptables', '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'] as const]
        : []),
    ]);
    const start = names.reduce<Files>(
      (files, node, at) => edited(files, { node, zone: at % 2 === 0 ? 'a' : 'b', last: at + 1 }, mode),
      empty,
    );
    const versions = (files: Files, cacheFor: () => ResolveCache): unknown =>
      nodesOf(files).map((name) => {
        const node = summariseNode(files, name, cacheFor());
        return 'version' in node ? [name, node.version] : node;
      });
    const told = new Set<string>();
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 12 }), (changes) => {
        const cache = new ResolveCache('versions');
        let files = start;
        for (const change of changes) {
          files = edited(files, change, mode);
          const found = versions(files, () => cache);
          expect(found).toEqual(versions(files, () => new ResolveCache()));
          told.add(JSON.stringify(found));
        }
      }),
      runs(100),
    );
    expect(told.size).toBeGreaterThan(20);
  },
);

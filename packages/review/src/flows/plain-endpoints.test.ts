import type { BundleFiles } from '@sluice/bundle';
import { addressOfEndpoint, compareText } from '@sluice/netfilter';
import { describe, expect, test } from 'vitest';
import { bundleOf, edited } from '../example.fixture.ts';
import { viewOf } from '../bundle/view.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import { diffBundles } from '../diff/diff.ts';
import { sampleBundle, type SampleService } from '../what-if/cluster.fixture.ts';
import { destinationsOf } from './destinations.ts';
import type { FlowOutcome } from './flow.ts';
import { flowRows, type FlowRow } from './flows.ts';

const nodes = [1, 2, 3].map((number) => ({ number, zone: 'a' }));
const web = (policy: 'Cluster' | 'Local', ...last: readonly number[]): SampleService => ({
  name: 'web',
  clusterIP: '10.96.0.10',
  nodePort: 30_080,
  internal: policy,
  external: policy,
  endpoints: last.map((one) => ({ address: `10.244.${(one % 3) + 1}.${one}`, node: (one % 3) + 1 })),
});

function rowsOf(bundles: readonly BundleFiles[], withoutPlainEndpoints: boolean): readonly FlowRow[] {
  const views = bundles.map((files) => viewOf(files));
  const indexes = views.map((view) => view.index('default', 'ipv4'));
  const destinations = destinationsOf(
    'ipv4',
    indexes.map((index) => ({ index, paths: index.paths })),
  );
  const asked = { profiles: ['default', 'default'], family: 'ipv4', destinations, withoutPlainEndpoints } as const;
  return [...flowRows(views, { ...asked, nodes: nodesOfProfile(views[0]!, 'default') })];
}

/** An outcome but for the masquerading of connections to `address`. */
const withoutSelf = ({ branches }: FlowOutcome, address: string): string =>
  branches
    .map(({ to = '', verdict, masquerade, share }) =>
      [verdict, to, masquerade && addressOfEndpoint(to) !== address, share.toFixed(6)].join(' '),
    )
    .toSorted(compareText)
    .join();

const placeOf = ({ nodes: group, destination }: FlowRow): string => JSON.stringify([group.nodes[0], destination]);

/** Whether a row is that of pods on the node of another one, to the same destination. */
const isOfPods = ({ source, destination, nodes: { nodes: names } }: FlowRow, row: FlowRow): boolean =>
  source.class.startsWith('pod-') &&
  names.includes(row.nodes.nodes[0]!) &&
  JSON.stringify(destination) === JSON.stringify(row.destination);

describe.each(['iptables', 'nftables'] as const)('in mode %s', (mode) => {
  test.each(['Cluster', 'Local'] as const)(
    'every endpoint that is left out is treated as another pod, but for itself; policy %s',
    (policy) => {
      const bundles = [
        [5, 6, 7, 8],
        [6, 7, 8, 9, 10],
      ].map((last) => sampleBundle(nodes, [web(policy, ...last)], mode));
      const [all, some] = [rowsOf(bundles, false), rowsOf(bundles, true)];
      const kept = new Set(some.map((row) => JSON.stringify([placeOf(row), row.source])));
      const left = all.filter((row) => !kept.has(JSON.stringify([placeOf(row), row.source])));
      expect(left.length).toBeGreaterThan(10);
      for (const row of left) {
        const { address } = row.source;
        const pods = some.filter((one) => isOfPods(one, row));
        const text = (outcomes: FlowRow['outcomes']): string =>
          outcomes.map((one) => withoutSelf(one, address)).join('\n');
        expect(pods.map((one) => text(one.outcomes))).toContain(text(row.outcomes));
      }
    },
  );
});

test.each([
  ['a chain does not masquerade an endpoint that it translates to', /^-A KUBE-SEP-\S+ .*-s 10\.244\.1\.5 .*\n/m, ''],
  [
    'another rule names an endpoint',
    /^(-A KUBE-SVC-\S+) .*-j KUBE-SEP-\S+\n/m,
    '$1 -m comment --comment "shop/web:http" -s 10.244.1.5 -j KUBE-MARK-MASQ\n$&',
  ],
] as const)('a changed flow of an endpoint is found where %s', (_title, from, to) => {
  const bundle = bundleOf('01-cluster-ip');
  const path = 'profiles/default/services/shop/web.iptables';
  const diff = diffBundles(
    bundle,
    edited(bundle, path, (text) => text.replace(from, to)),
  );
  const sources = diff.flows.flatMap(({ source, alsoFrom }) => [source, ...alsoFrom]);
  expect(sources).toContainEqual(expect.objectContaining({ class: 'endpoint', address: '10.244.1.5' }));
});

test('hundreds of endpoints on many nodes are not traced from each of them', () => {
  const many = Array.from({ length: 240 }, (_, at) => at + 5);
  const bundles = [sampleBundle(nodes, [web('Local', ...many)]), sampleBundle(nodes, [web('Local', ...many.slice(1))])];
  expect(rowsOf(bundles, true).length).toBeLessThan(100);
});

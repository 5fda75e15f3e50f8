import { expect, test } from 'vitest';
import { cart, withoutEndpoints } from '../link/cart.fixture.ts';
import { linkFlat } from '../link/flat.ts';
import type { ResolvedRules } from '../link/program.ts';
import { settledProgram } from '../link/tree/flatten.ts';
import { linkTree, sectionsOf } from '../link/tree/link.ts';
import { onAllNodes, type ServiceLines } from './all-nodes.ts';
import type { DescribedFrontend } from './described.ts';
import { planeOf } from './planes.ts';
import type { ForwardingState } from './services.ts';

const described = (state: ForwardingState): readonly DescribedFrontend[] => planeOf(state).read(state).describe('ipv4');
const ofLines = (lines: ServiceLines): readonly DescribedFrontend[] => described(onAllNodes('ipv4', lines));

const layouts = {
  flat: (rules: ResolvedRules) => linkFlat(rules, 'ipv4').program,
  tree: (rules: ResolvedRules) => settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4' }).program),
};

/** `10.96.7.1 cluster`, with what else is said of a frontend. */
const lineOf = ({
  address = 'node',
  port,
  kind,
  endpoints,
  internalPolicy,
  externalPolicy,
  ranges,
}: DescribedFrontend): string =>
  [
    `${address} ${port} ${kind}: ${endpoints
      .map(({ text, weight }) => `${text} ${weight}`)
      .toSorted()
      .join(', ')}`,
    ...(internalPolicy ? [`inside ${internalPolicy}`] : []),
    ...(externalPolicy ? [`outside ${externalPolicy}`] : []),
    ...(ranges ?? []),
  ].join('; ');
const lines = (frontends: readonly DescribedFrontend[]): readonly string[] => frontends.map(lineOf).toSorted();

test.each(['flat', 'tree'] as const)('describes the frontends of a Service, in layout %s', (layout) => {
  const frontends = described({ families: { ipv4: layouts[layout](cart()) } });
  const served = '10.244.1.7:8080 1, 10.244.2.9:8080 1, 10.244.3.3:8080 1';
  expect(lines(frontends)).toEqual([
    `10.96.7.1 80 cluster: ${served}; inside Cluster`,
    `192.0.2.50 80 external: ${served}; outside Local`,
    `203.0.113.9 80 load-balancer: ${served}; outside Local; 198.51.100.0/24`,
    `node 30080 undefined: ${served}; outside Local`,
    'node 32000 health-check: ',
  ]);
  expect(new Set(frontends.map(({ service }) => service))).toEqual(new Set(['shop/cart:http']));
  expect(new Set(frontends.flatMap(({ affinitySeconds }) => affinitySeconds))).toEqual(new Set([600]));
});

test.each([
  ['flat', ['10.96.7.1 80 cluster: ', '203.0.113.9 80 undefined: ']],
  ['tree', ['10.96.7.1 80 undefined: ', '203.0.113.9 80 undefined: ']],
] as const)('layout %s shows what it can of a Service without endpoints', (layout, addressed) => {
  const frontends = described({ families: { ipv4: layouts[layout](withoutEndpoints) } });
  expect(lines(frontends)).toEqual([...addressed, 'node 30080 undefined: ', 'node 32000 health-check: ']);
});

test('an endpoint of several nodes is one of all nodes, once for each weight', () => {
  const ipvs = [
    '-a -t ${host.nodePortAddresses}:30080 -r 10.244.1.5:8080 -m -w 1',
    '-A -t ${host.nodePortAddresses}:30080 -s lc -p 600',
    '-a -t ${host.nodePortAddresses}:30080 -r 10.244.1.5:8080 -m -w 1',
    '-a -t ${host.nodePortAddresses}:30080 -r 10.244.1.5:8080 -m -w 3',
    '-A -t 203.0.113.9:80 -s mh -b mh-port',
    '-A -t 192.0.2.50:80 -s lc',
  ];
  const ipset = [
    'add KUBE-LOAD-BALANCER 203.0.113.9,tcp:80',
    'add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.9,tcp:80,198.51.100.7',
    'add KUBE-HEALTH-CHECK-NODE-PORT 32000',
  ];
  const frontends = ofLines({ mode: 'ipvs', ipset, ipvs });
  expect(lines(frontends)).toEqual([
    '192.0.2.50 80 external: ',
    '203.0.113.9 80 load-balancer: ; 198.51.100.7/32',
    'node 30080 undefined: 10.244.1.5:8080 1, 10.244.1.5:8080 3',
    'node 32000 health-check: ',
  ]);
  expect(frontends.map(({ scheduler, affinitySeconds }) => [scheduler, ...affinitySeconds])).toEqual([
    ['lc', 600],
    ['mh mh-port'],
    ['lc'],
    [undefined],
  ]);
});

test('what excludes each other on a node is side by side on all nodes', () => {
  const nft = [
    'add element inet sluice cluster4 { 10.96.0.10 }',
    'add element inet sluice svc4 { 10.96.0.10 . tcp . 80 : goto s${count}t600, 0.0.0.0 . tcp . 30080 : goto pn${count} }',
    'add element inet sluice tcp4 { 10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080 }',
    'add element inet sluice tcp4 { 10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080 }',
    'add element inet sluice near4 { 0.0.0.0 . tcp . 30080, 203.0.113.9 . tcp . 80 }',
    'add element inet sluice tcp4 { 0.0.0.0 . 30080 . ${localSlot} : 10.244.1.5 . 8080 }',
    'add element inet sluice allow4 { 203.0.113.9 . tcp . 80 . 198.51.100.7, 203.0.113.9 . tcp . 80 . 203.0.113.9 }',
    'add element inet sluice health4 { 32000 }',
    'no line of a file',
  ];
  const frontends = ofLines({ mode: 'nftables', nft });
  expect(lines(frontends)).toEqual([
    '10.96.0.10 80 cluster: 10.244.1.5:8080 1',
    '203.0.113.9 80 load-balancer: ; outside Local; 198.51.100.7/32',
    'node 30080 undefined: 10.244.1.5:8080 1; outside Local',
    'node 32000 health-check: ',
  ]);
  expect(frontends.map(({ affinitySeconds }) => affinitySeconds)).toEqual([[600], [], [], []]);
});

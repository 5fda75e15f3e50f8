import { orProblems } from '../bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { type BundleDiff, diffBundles, isSame } from './diff.ts';
import { bundleOf, edited } from '../example.fixture.ts';
import { bundleOf as shortBundle } from '../policy/bundle.fixture.ts';
import { nftBundle, nftService } from '../nft.fixture.ts';
import { outcomeText, sourceText, verdictText } from '../report/words.ts';

function diffOf(old: BundleFiles, updated: BundleFiles): BundleDiff {
  const diff = diffBundles(old, updated);
  return diff;
}

const balancer = bundleOf('03-load-balancer');
const web = 'profiles/default/services/shop/web.iptables';
const api = 'profiles/default/services/shop/api.iptables';

test('a bundle does not differ from itself', () => {
  const diff = diffOf(balancer, balancer);
  expect(isSame(diff)).toBe(true);
  expect(verdictText(diff)).toBe('Nothing changes');
});

test('rules of different Services in another order make no difference', () => {
  const swapped = edited(balancer, web, (text) => {
    const lines = text.split('\n');
    const at = lines.findIndex((line) => line.includes('cluster IP" -m tcp -p tcp -d 10.96.0.30'));
    return [...lines.slice(0, at), lines[at + 1], lines[at], ...lines.slice(at + 2)].join('\n');
  });
  expect(isSame(diffOf(balancer, swapped))).toBe(true);
});

test('a removed source range admits all external sources, on the node with the endpoint', () => {
  const open = edited(balancer, web, (text) => text.replaceAll('-s 198.51.100.0/25', '-s 198.51.0.0/16'));
  const { flows, services } = diffOf(balancer, open);
  expect(services.map(({ service, kind }) => `${kind} ${service}`)).toEqual(['changed shop/web']);
  const shown = flows.map(({ nodes, source, destination, old, new: updated }) => {
    return `${nodes.nodes.join()} ${sourceText(source)} ${destination.address}: ${outcomeText(old)} → ${outcomeText(updated)}`;
  });
  expect(shown).toContain('node-1 outside 198.51.0.0/16 203.0.113.9: DROP → 10.244.1.5:8080');
  expect(new Set(flows.map(({ destination }) => destination.address))).toEqual(new Set(['203.0.113.9']));
});

test('reports a closed node port with the number of nodes and the new outcome', () => {
  const closed = edited(balancer, api, (text) => text.replace(/^-A KUBE-NODEPORTS .*\n/gm, ''));
  const diff = diffOf(balancer, closed);
  expect(verdictText(diff)).toBe('1 Service changes, 1 node port closes on 2 nodes, no port loses its last endpoint');
  expect(new Set(diff.flows.map(({ new: updated }) => outcomeText(updated)))).toEqual(new Set(['no Service matches']));
});

test('a removed Service is one change, with its flows', () => {
  const less = new Map([...balancer].filter(([path]) => path !== api));
  const diff = diffOf(balancer, less);
  expect(diff.services.map(({ kind, service }) => `${kind} ${service}`)).toEqual(['removed shop/api']);
  expect(diff.flows.every(({ destination }) => destination.services.join() === 'shop/api')).toBe(true);
  expect(verdictText(diff)).toContain('1 Service removed');
});

test('a change of a base file affects every Service', () => {
  const base = 'profiles/default/base/first.iptables';
  const unmarked = edited(balancer, base, (text) => text.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''));
  const services = new Set(diffOf(balancer, unmarked).flows.flatMap(({ destination }) => destination.services));
  expect(services).toEqual(new Set(['shop/api', 'shop/proxied', 'shop/web']));
});

test('reports problems of a bundle that nodes would refuse', () => {
  const broken = edited(balancer, web, (text) => text.replace('-j DROP', '-j LOG'));
  expect(orProblems(() => diffBundles(balancer, broken))).toMatchObject([{ code: 'RULE_REFUSED' }]);
});

test('merges nodes that a flow treats equally, although other flows distinguish them', () => {
  const local = edited(bundleOf('02-node-port'), 'profiles/default/base/first.iptables', (text) =>
    text.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''),
  );
  const { flows } = diffOf(bundleOf('02-node-port'), local);
  const keys = flows.map(({ family, destination, source, alsoFrom, old, new: updated }) =>
    JSON.stringify([family, destination, [source, ...alsoFrom].map(sourceText), old.key, updated.key]),
  );
  expect(new Set(keys).size).toBe(keys.length);
  expect(flows.some(({ nodes }) => nodes.nodes.length > 1)).toBe(true);
  const byNode = flows.filter(({ packet }) => packet.in === undefined && packet.source !== '127.0.0.1');
  const own = { 'node-1': '192.0.2.11', 'node-2': '192.0.2.12' };
  expect(byNode.map(({ packet }) => packet.source)).toEqual(
    byNode.map(({ nodes }) => own[nodes.nodes[0] as keyof typeof own]),
  );
});

test('reports that a load balancer without source ranges is open to all', () => {
  const open = edited(balancer, web, (text) =>
    text
      .split('\n')
      .filter((line) => !line.includes('198.51.100.0/25') && !line.includes('-j DROP'))
      .join('\n'),
  );
  const ranges = diffOf(balancer, open).services.flatMap(({ changes }) =>
    changes.filter(({ what }) => what === 'source-range'),
  );
  expect(ranges).toEqual([
    { what: 'source-range', port: 'shop/web:http 80/TCP', old: '198.51.100.0/25', new: 'open to all' },
  ]);
});

test.each(['old', 'new'] as const)(
  'a base that only in the %s bundle masquerades other traffic is a changed flow',
  (side) => {
    const plain = bundleOf('01-cluster-ip');
    const masked = edited(plain, 'profiles/default/base/first.iptables', (text) =>
      text.replace(/COMMIT\n$/, '-A KUBE-SERVICES -d 192.168.3.0/24 -j KUBE-MARK-MASQ\nCOMMIT\n'),
    );
    const { flows } = side === 'old' ? diffBundles(masked, plain) : diffBundles(plain, masked);
    expect(flows.map(({ destination }) => destination.address)).toContain('192.168.3.0');
  },
);

/** The port http of shop/web under another name, as a manifest and its EndpointSlices would have it after a rename. */
const renamed = (text: string): string =>
  text.replaceAll('shop/web:http', 'shop/web:web').replaceAll(/^(# .*)\bhttp\b/gm, '$1web');

test('a renamed port is one change, without traffic changes', () => {
  const diff = diffOf(balancer, edited(balancer, web, renamed));
  expect(diff.services.map(({ changes }) => changes)).toEqual([
    [{ what: 'port', old: 'shop/web:http 80/TCP', new: 'shop/web:web 80/TCP' }],
  ]);
  expect(diff.flows).toEqual([]);
  expect(verdictText(diff)).toBe('1 Service changes, no port loses its last endpoint');
});

test('reports a renamed port that loses its endpoints', () => {
  const empty = `# shop/web LoadBalancer
# 10.96.0.30: web 80/TCP node port 30090
# load-balancer address 203.0.113.9
# load-balancer source range 198.51.100.0/25
*filter
-A KUBE-SERVICES -m comment --comment "shop/web:web has no endpoints" -m tcp -p tcp -d 10.96.0.30 --dport 80 -j REJECT
-A KUBE-EXTERNAL-SERVICES -m comment --comment "shop/web:web has no endpoints" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j REJECT
-A KUBE-EXTERNAL-SERVICES -m comment --comment "shop/web:web has no endpoints" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30090 -j REJECT
COMMIT
`;
  const diff = diffOf(
    balancer,
    edited(balancer, web, () => empty),
  );
  expect(verdictText(diff)).toBe('1 Service changes, shop/web:web loses its last endpoint');
  // Neither what its address is nor who may come has changed: the rules without endpoints just do not say so.
  const said = diff.services.flatMap(({ changes }) =>
    changes.map(({ what, new: updated }) => `${what} ${updated ?? 'gone'}`),
  );
  expect(said).not.toContain('address external 203.0.113.9:80');
  expect(said.filter((text) => text.startsWith('source-range'))).toEqual([]);
});

test.each<readonly [string, string, string, string, readonly string[]]>([
  [
    'an endpoint',
    'web',
    '10.244.2.7 . 8080 }',
    '10.244.2.8 . 8080 }',
    [
      'node-1,node-2 10.96.0.10: masquerade 10.244.1.5:8080 | 10.244.2.7:8080 → masquerade 10.244.1.5:8080 | 10.244.2.8:8080',
    ],
  ],
  ['affinity', 'cart', 't600', 't300', ['node-1,node-2 10.96.0.20']],
  ['source ranges', 'gate', '198.51.100.0/25 }', '198.51.0.0/16 }', ['node-1 203.0.113.9: DROP → 10.244.1.30:8080']],
  [
    'a scheduler',
    'web',
    'n${count}',
    'i${count}',
    [
      'node-1,node-2 10.96.0.10: masquerade 10.244.1.5:8080 | 10.244.2.7:8080 → masquerade 10.244.1.5:8080 | 10.244.2.7:8080 (scheduler round-robin)',
    ],
  ],
  [
    'a Maglev table',
    'web',
    'n${count}',
    'm251',
    [
      'node-1,node-2 10.96.0.10: masquerade 10.244.1.5:8080 | 10.244.2.7:8080 → masquerade 10.244.1.5:8080 50.1992 %, 10.244.2.7:8080 49.8008 % (scheduler maglev 251)',
    ],
  ],
  [
    'a weight',
    'web',
    '${slot} : 10.244.2.7',
    '${slot:3} : 10.244.2.7',
    [
      'node-1,node-2 10.96.0.10: masquerade 10.244.1.5:8080 | 10.244.2.7:8080 → masquerade 10.244.1.5:8080 25 %, 10.244.2.7:8080 75 %',
    ],
  ],
  ['the verdict without endpoints', 'idle', 'goto refuse', 'drop', ['node-1,node-2 10.96.0.40: REJECT → DROP']],
])('flows of mode nftables change with %s', (_title, name, from, to, expected) => {
  const updated = edited(nftBundle, nftService(name), (text) => text.replaceAll(from, to));
  const { flows } = diffOf(nftBundle, updated);
  const shown = flows.map(({ nodes, destination, old, new: after }) => {
    return `${nodes.nodes.join()} ${destination.address}: ${outcomeText(old)} → ${outcomeText(after)}`;
  });
  for (const text of expected) expect(shown.filter((one) => one.startsWith(text))).not.toEqual([]);
  expect(new Set(flows.flatMap(({ destination }) => destination.services))).toEqual(new Set([`shop/${name}`]));
});

test('facts of mode nftables change with its elements', () => {
  const updated = edited(nftBundle, nftService('gate'), (text) =>
    text.replaceAll('198.51.100.0/25 }', '198.51.0.0/16 }').replaceAll('32090', '32091'),
  );
  const [change] = diffOf(nftBundle, updated).services;
  expect(change).toMatchObject({ service: 'shop/gate', kind: 'changed' });
  expect(change?.changes.map(({ what, old, new: after }) => [what, old, after])).toEqual([
    ['source-range', '198.51.100.0/25', undefined],
    ['source-range', undefined, '198.51.0.0/16'],
    ['health-check-port', '32090', '32091'],
  ]);
});

test('facts of mode nftables change with a scheduler and a weight', () => {
  const updated = edited(nftBundle, nftService('web'), (text) =>
    text.replaceAll('n${count}', 'm1009').replaceAll('${slot} : 10.244.2.7', '${slot:3} : 10.244.2.7'),
  );
  const [change] = diffOf(nftBundle, updated).services;
  expect(change?.changes.map(({ what, old, new: after }) => [what, old, after])).toEqual([
    ['scheduler', 'random', 'maglev 1009'],
    ['weight', '10.244.2.7:8080 1', '10.244.2.7:8080 3'],
  ]);
});

test('the same change that takes the last endpoint of one profile alone is a change of each profile', () => {
  const [first, second] = ['10.244.1.5 node-a z1', '10.244.2.5 node-b z2'];
  const webWith = (endpoints: readonly string[]): BundleFiles =>
    shortBundle([{ name: 'web', clusterIPs: ['10.96.0.30'], endpoints }]);
  const withEdge = (files: BundleFiles, edge: BundleFiles): BundleFiles =>
    new Map([
      ...files,
      ...[...edge].flatMap(([path, text]): readonly [string, string][] =>
        path.startsWith('profiles/default/') ? [[path.replace('default', 'edge'), text]] : [],
      ),
      ['nodes/node-b/node.yaml', files.get('nodes/node-b/node.yaml')!.replace('profile: default', 'profile: edge')],
    ]);
  const diff = diffOf(withEdge(webWith([first]), webWith([first, second])), withEdge(webWith([]), webWith([second])));
  expect(diff.services.map(({ profiles, emptied }) => [profiles, emptied])).toEqual([
    [['default'], ['shop/web:http 80/TCP']],
    [['edge'], []],
  ]);
});

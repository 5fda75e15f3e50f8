import { expect, test } from 'vitest';
import { assemble } from '../../assemble.ts';
import type { Endpoint, Node, Service } from '../../model/model.ts';
import { configWith, endpoint, node, portWith, profileWith, serviceOf } from '../sample.fixture.ts';

const profile = profileWith({
  mode: 'ipvs',
  ipvs: { scheduler: 'rr', excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } },
});

/** A node and a pod of the DaemonSet for each number. */
const fleet = (count: number): Node[] =>
  Array.from({ length: count }, (_, index) => node(`node-${index}`, { zone: `zone-${index % 3}` }));
const daemons = (count: number, hints: boolean, last = 5): Endpoint[] =>
  Array.from({ length: count }, (_, index) => {
    const host = index === count - 1 ? last : 5;
    const zone = `zone-${index % 3}`;
    return endpoint(`10.${index >> 8}.${index & 255}.${host}:8080`, {
      nodeName: `node-${index}`,
      zone,
      ...(hints && { hintZones: [zone] }),
    });
  });

function filesOf(nodes: readonly Node[], endpoints: readonly Endpoint[]): ReadonlyMap<string, string> {
  const sorted = endpoints.toSorted((a, b) => (a.text < b.text ? -1 : 1));
  const port = portWith(
    { endpoints: sorted, loadBalancerIPs: ['203.0.113.9'] },
    { nodePort: 30_080, externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 },
  );
  const other: Service = {
    ...serviceOf([portWith({ clusterIP: '10.96.7.9' }, { key: 'shop/other:http' })]),
    name: 'other',
  };
  return assemble(
    { nodes, services: [serviceOf([port], 'LoadBalancer'), other] },
    configWith({ profiles: [profile] }),
    true,
  ).files;
}

test('a pod that restarts on one of 1,000 nodes changes one file of each tool', () => {
  const [before, after] = [
    filesOf(fleet(1_000), daemons(1_000, false)),
    filesOf(fleet(1_000), daemons(1_000, false, 6)),
  ];
  const changed = [...after.keys()].filter((path) => after.get(path) !== before.get(path));
  expect(changed).toEqual(['ipset', 'ipvs'].map((tool) => `profiles/default/services/shop/cart.${tool}`));
  const old = new Set(before.get(changed[1]!)!.split('\n'));
  // The header's line, and for each of three virtual servers the endpoint: once in the ClusterIP's list, twice with policy Local.
  expect(
    after
      .get(changed[1]!)!
      .split('\n')
      .filter((line) => !old.has(line)),
  ).toHaveLength(6);
});

test.each([false, true])('files grow as endpoints do, with hints for zones: %s', (hints) => {
  const bytes = (count: number): number => {
    const files = filesOf(fleet(count), daemons(count, hints));
    return [...files].reduce((sum, [path, text]) => (path.includes('/shop/cart.') ? sum + text.length : sum), 0);
  };
  expect(bytes(1_000) / bytes(250)).toBeLessThan(4.4);
});

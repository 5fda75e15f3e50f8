import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { bundleOf, edited } from './example.fixture.ts';
import { type Proof, proveBundle } from './prove.ts';
import { outcomeText, sourceText } from './words.ts';

function proofOf(files: BundleFiles): Proof {
  const proof = proveBundle(files);
  if (!('counterExamples' in proof)) throw new Error(proof[0]?.message);
  return proof;
}

const service = (name: string): string => `profiles/default/services/shop/${name}`;

test.each(['01-cluster-ip', '03-load-balancer', '07-policies', '10-ipvs', '11-mixed'])('%s is proved', (example) => {
  const { counterExamples, profiles } = proofOf(bundleOf(example));
  expect(counterExamples).toEqual([]);
  expect(profiles.every(({ flows }) => flows > 0)).toBe(true);
});

test.each([
  [
    'a share',
    '01-cluster-ip',
    service('web.iptables'),
    (text: string) => text.replace(/--probability 0\.5\d*/, '--probability 0.7500000000'),
  ],
  [
    'a weight',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('10.244.2.5:8080 -m -w 2', '10.244.2.5:8080 -m -w 1'),
  ],
  [
    'a real server',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('-r 10.244.2.5:8080', '-r 10.244.2.6:8080'),
  ],
  [
    'a scheduler',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('-A -t 10.96.0.10:80 -s wrr', '-A -t 10.96.0.10:80 -s rr'),
  ],
  [
    'an entry of a set',
    '10-ipvs',
    service('web.ipset'),
    (text: string) => text.replace(/^.*KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80\n/m, ''),
  ],
] as const)('%s that is not as declared is a counter-example of its Service', (_title, example, path, edit) => {
  const { counterExamples } = proofOf(edited(bundleOf(example), path, edit));
  expect(counterExamples.length).toBeGreaterThan(0);
  for (const { destination, nodes, packet } of counterExamples) {
    expect(destination.services).toContain('shop/web');
    expect(nodes.nodes.length).toBeGreaterThan(0);
    expect(packet.destination).toBe(destination.address);
  }
});

test('a counter-example says who meets what', () => {
  const open = edited(bundleOf('03-load-balancer'), service('web.iptables'), (text) =>
    text.replaceAll('-s 198.51.100.0/25', '-s 198.51.0.0/16'),
  );
  const said = proofOf(open).counterExamples.map(
    ({ source, destination, nodes, expected, found }) =>
      `${sourceText(source)} → ${destination.address} on ${nodes.nodes.join()}: ${expected.kind}, not ${outcomeText(found)}`,
  );
  expect(said).toEqual(['outside 198.51.0.0/16 → 203.0.113.9 on node-1: drop, not 10.244.1.5:8080']);
});

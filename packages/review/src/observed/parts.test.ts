import type { BundleFiles, Observation } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { viewOf } from '../bundle/view.ts';
import { bundleOf } from '../example.fixture.ts';
import { observe, savedFiles } from '../parity/observed.fixture.ts';
import { missingParts } from './parts.ts';

const node = 'node-1';
const ofBoth = bundleOf('01-cluster-ip');
const ofFour: BundleFiles = new Map(
  [...ofBoth]
    .filter(([path]) => !path.endsWith('.ip6tables'))
    .map(([path, text]) => [path, text.replace('\n  - ipv6', '')] as const),
);

/** A node of which no rules of IPv6 were read. @param address of an interface, as `ip addr` prints it */
function seenWith(files: BundleFiles, address: string): Observation {
  const saved = savedFiles(files, node);
  saved.delete('ip6tables-nft-save.txt');
  const [name, network = ''] = address.split(' ');
  const inet = network.includes(':') ? 'inet6' : 'inet';
  saved.set('ip-addr.txt', `2: ${name}: <UP>\n    ${inet} ${network} scope global\n`);
  return observe(node, saved);
}

test.each<[string, BundleFiles, string, boolean]>([
  ['the bundle has no IPv6, the node has', ofFour, 'eth0 2001:db8::11/64', true],
  ['the bundle has no IPv6, the node has it on its loopback device', ofFour, 'lo 2001:db8::11/128', false],
  ['the bundle has no IPv6, the node has link-local addresses', ofFour, 'eth0 fe80::1/64', false],
  ['neither has IPv6', ofFour, 'eth0 192.0.2.11/24', false],
  ['the bundle has IPv6', ofBoth, 'eth0 192.0.2.11/24', true],
])('rules of IPv6 that were not read matter where %s', (_title, files, address, matters) => {
  const missing = missingParts(seenWith(files, address), viewOf(files), node, false);
  expect(missing.filter(({ what }) => what === 'rules-nft-ipv6')).toMatchObject([{ matters }]);
});

test('a virtual server of a firewall mark is named', () => {
  const named = (text: string) => {
    const saved = savedFiles(ofBoth, node);
    saved.set('ipvsadm.txt', text);
    return missingParts(observe(node, saved), viewOf(ofBoth), node, false).filter(
      ({ cases, matters, what }) => matters && cases === 0 && what.startsWith('virtual'),
    );
  };
  expect(named('-A -f 7 -s rr\n-a -f 7 -r 192.0.2.99:80 -g -w 1\n-A -t 192.0.2.99:80 -s rr\n')).toMatchObject([
    { what: 'virtual server of firewall mark 7', why: 'which packets have this mark is not followed' },
  ]);
});

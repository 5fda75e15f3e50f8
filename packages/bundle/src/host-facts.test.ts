import { expect, test } from 'vitest';
import { printHostFacts } from './host-facts.fixture.ts';
import { type HostFacts, hostFactsLimits, readHostFacts } from './host-facts.ts';

const facts: HostFacts = {
  node: 'node-a',
  kernelRelease: '6.1.0-44-amd64',
  addresses: { ipv4: ['127.0.0.1', '192.0.2.11'], ipv6: [] },
  tcpBeLiberal: false,
  knowsBpf: true,
  providesKubeChains: true,
};
const text = printHostFacts(facts);

test('printed facts read back as they were', () => {
  expect(readHostFacts('host.yaml', text)).toEqual(facts);
  expect(text).toBe(`apiVersion: sluice.dev/v1alpha1
kind: HostFacts
format: 1
node: "node-a"
kernelRelease: "6.1.0-44-amd64"
addresses:
  ipv4:
    - "127.0.0.1"
    - "192.0.2.11"
  ipv6: []
tcpBeLiberal: false
knowsBpf: true
providesKubeChains: true
`);
});

test.each([
  ['another format', text.replace('format: 1', 'format: 2'), 'format is 2'],
  ['a key of a newer format', `${text}rules: []\n`, 'HostFacts has no key "rules"'],
  ['another kind', text.replace('HostFacts', 'Node'), 'kind is "Node"'],
  ['no kernel', text.replace(/kernelRelease.*\n/, ''), 'kernelRelease is missing'],
  ['a kernel without a number', text.replace('6.1.0-44-amd64', 'new'), 'kernelRelease is "new"'],
  ['an invalid node name', text.replace('"node-a"', '"../a"'), 'node is "../a"'],
  ['an address of the other family', text.replace('192.0.2.11', 'fd00::1'), 'addresses is'],
  ['another spelling of an address', text.replace('ipv6: []', 'ipv6: ["FD00::0001"]'), 'addresses is'],
  ['an address given twice', text.replace('127.0.0.1', '192.0.2.11'), 'addresses is'],
  ['a text in place of an address', text.replace('192.0.2.11', '1.2.3.4 -j ACCEPT'), 'addresses is'],
  ['an unknown family', text.replace('  ipv6', '  ipx'), 'addresses is'],
  ['a number in place of a flag', text.replace('knowsBpf: true', 'knowsBpf: 1'), 'knowsBpf is 1'],
  ['aliases', 'a: &a [1]\nb: *a\n', 'aliases'],
  ['nothing', '', 'not a mapping'],
  ['too much', '#'.repeat(hostFactsLimits.bytesMax + 1), 'larger than'],
])('refuses %s, with the reason', (_title, written, why) => {
  expect(readHostFacts('host.yaml', written)).toMatchObject({
    code: 'HOST_FACTS_INVALID',
    message: expect.stringMatching(new RegExp(`^Cannot read host.yaml: .*${why.replaceAll(/[.[\]*]/g, '.')}`)),
    hint: expect.stringContaining('sluiced observe -o FILE'),
  });
});

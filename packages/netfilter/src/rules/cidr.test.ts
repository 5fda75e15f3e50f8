import { expect, test } from 'vitest';
import { canonicalCidr, cidrContains, forbiddenEndpoint, parseCidr } from './cidr.ts';

test.each([
  ['a network', '10.244.0.0/16', '10.244.0.0/16'],
  ['bits after the prefix are cleared', '10.244.1.7/16', '10.244.0.0/16'],
  ['a prefix inside a byte', '10.255.255.255/9', '10.128.0.0/9'],
  ['everything', '1.2.3.4/0', '0.0.0.0/0'],
  ['one address', '10.0.0.1/32', '10.0.0.1/32'],
  ['an IPv6 network', 'FD00:10:244:1:2::/56', 'fd00:10:244::/56'],
  ['an IPv6 prefix inside a group', 'fd00:ffff::/21', 'fd00:f800::/21'],
  ['all of IPv6', '::1/0', '::/0'],
  ['one IPv6 address', '::1/128', '::1/128'],
  ['no prefix is refused', '10.0.0.0', undefined],
  ['an empty prefix is refused', '10.0.0.0/', undefined],
  ['a prefix with a leading zero is refused', '10.0.0.0/08', undefined],
  ['a prefix over 32 is refused', '10.0.0.0/33', undefined],
  ['a prefix over 128 is refused', 'fd00::/129', undefined],
  ['a mask is refused', '10.0.0.0/255.0.0.0', undefined],
  ['a negative prefix is refused', '10.0.0.0/-1', undefined],
  ['two prefixes are refused', '10.0.0.0/8/8', undefined],
])('CIDR: %s', (_title, text, canonical) => {
  expect(canonicalCidr(text)).toBe(canonical);
});

test.each([
  ['the first address', '10.244.0.0/16', '10.244.0.0', true],
  ['the last address', '10.244.0.0/16', '10.244.255.255', true],
  ['the address after', '10.244.0.0/16', '10.245.0.0', false],
  ['a prefix inside a byte', '10.96.0.0/12', '10.111.255.255', true],
  ['beyond a prefix inside a byte', '10.96.0.0/12', '10.112.0.0', false],
  ['a prefix of 0 contains all of its family', '0.0.0.0/0', '203.0.113.9', true],
  ['and nothing of the other', '0.0.0.0/0', '::1', false],
  ['an IPv6 network', 'fd00:10:244::/56', 'fd00:10:244:ff::1', true],
  ['beyond an IPv6 network', 'fd00:10:244::/56', 'fd00:10:244:100::1', false],
  ['a malformed address is nowhere', '10.0.0.0/8', '10.0.0.01', false],
  ['a malformed network contains nothing', '10.0.0.0', '10.0.0.0', false],
])('contains: %s', (_title, cidr, address, expected) => {
  expect(cidrContains(cidr, address)).toBe(expected);
});

test.each([
  ['10.244.1.5', undefined],
  ['192.0.2.1', undefined],
  ['fd00::5', undefined],
  ['0.0.0.0', 'it is the unspecified address'],
  ['::', 'it is the unspecified address'],
  ['127.8.9.1', 'it is a loopback address'],
  ['::1', 'it is a loopback address'],
  ['169.254.169.254', 'it is a link-local address'],
  ['febf::1', 'it is a link-local address'],
  ['fec0::1', undefined],
  ['224.0.0.1', 'it is a multicast address'],
  ['239.255.255.255', 'it is a multicast address'],
  ['ff02::1', 'it is a multicast address'],
  ['255.255.255.255', 'it is the broadcast address'],
  ['64:ff9b::7f00:1', 'it leads to 127.0.0.1 (NAT64), a loopback address'],
  ['64:ff9b::169.254.169.254', 'it leads to 169.254.169.254 (NAT64), a link-local address'],
  ['64:ff9b::', 'it leads to 0.0.0.0 (NAT64), the unspecified address'],
  ['64:ff9b::192.0.2.1', undefined],
  ['64:ff9b::1:127.0.0.1', undefined],
  // RFC 8215, with each length of a prefix of RFC 6052.
  ['64:ff9b:1:7f00:0:100::', 'it leads to 127.0.0.1 (NAT64), a loopback address'],
  ['64:ff9b:1:7f:0:1::', 'it leads to 127.0.0.1 (NAT64), a loopback address'],
  ['64:ff9b:1:0:7f:0:100:0', 'it leads to 127.0.0.1 (NAT64), a loopback address'],
  ['64:ff9b:1::127.0.0.1', 'it leads to 127.0.0.1 (NAT64), a loopback address'],
  ['64:ff9b:1:7f00::192.0.2.1', undefined],
  ['64:ff9b:1:c000:2:100::', undefined],
  ['64:ff9b:1:c0:0:201::', undefined],
  ['64:ff9b:1:0:c0:2:100:0', undefined],
  ['64:ff9b:2::127.0.0.1', undefined],
  ['2002:7f00:1::', 'it leads to 127.0.0.1 (6to4), a loopback address'],
  ['2002:a9fe:a9fe::5', 'it leads to 169.254.169.254 (6to4), a link-local address'],
  ['2002:e000:1::5', 'it leads to 224.0.0.1 (6to4), a multicast address'],
  ['2002:c000:201::7f00:1', undefined],
  ['::127.0.0.1', 'it leads to 127.0.0.1 (IPv4-compatible), a loopback address'],
  ['::255.255.255.255', 'it leads to 255.255.255.255 (IPv4-compatible), the broadcast address'],
  ['::192.0.2.1', undefined],
  ['::ffff:0:127.0.0.1', 'it leads to 127.0.0.1 (SIIT), a loopback address'],
  ['2001:0:c000:201::80ff:fffe', 'it leads to 127.0.0.1 (Teredo), a loopback address'],
  ['2001:0:c000:201::7f00:1', undefined],
  ['2001:db8::7f00:1', undefined],
])('an endpoint at %s: %s', (address, reason) => {
  expect(forbiddenEndpoint(address)).toBe(reason);
});

test('a network records whether bits after its prefix were set', () => {
  expect(['10.0.0.0/8', '10.0.0.1/8'].map((text) => parseCidr(text)?.hostBits)).toEqual([false, true]);
});

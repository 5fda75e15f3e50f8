import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalAddress, familyOfAddress, parseAddress } from './address.ts';

test.each([
  ['an IPv4 address stays as it is', '10.96.0.1', '10.96.0.1'],
  ['the lowest IPv4 address', '0.0.0.0', '0.0.0.0'],
  ['the highest IPv4 address', '255.255.255.255', '255.255.255.255'],
  ['the shortest IPv6 address', '::', '::'],
  ['the IPv6 loopback', '::1', '::1'],
  ['a gap at the end', 'fd00::', 'fd00::'],
  ['a gap in the middle', 'fd00:10::5', 'fd00:10::5'],
  ['a full IPv6 address without zeros', '1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
  ['upper case becomes lower case', 'FD00::ABCD', 'fd00::abcd'],
  ['leading zeros of a group go', '2001:0db8::0001', '2001:db8::1'],
  ['zeros written out become a gap', '2001:db8:0:0:0:0:0:1', '2001:db8::1'],
  ['all zeros become a gap', '0:0:0:0:0:0:0:0', '::'],
  ['one zero group is no gap', '2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['a gap of one group is written out', '2001:db8::1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['the longer of two runs becomes the gap', '2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
  ['the first of two equal runs becomes the gap', '2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['a run at the end', '1:2:3:4:5:6:0:0', '1:2:3:4:5:6::'],
  ['a run at the start', '0:0:3:4:5:6:7:8', '::3:4:5:6:7:8'],
  ['an IPv4 tail becomes two groups', '64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
  ['an IPv4 tail after six groups', '1:2:3:4:5:6:1.2.3.4', '1:2:3:4:5:6:102:304'],
  ['an IPv4-compatible address is IPv6', '::1.2.3.4', '::102:304'],
  ['ffff elsewhere is not IPv4-mapped', '::ffff:1:2:3', '::ffff:1:2:3'],
])('%s', (_title, text, canonical) => {
  expect(canonicalAddress(text)).toBe(canonical);
});

test.each([
  ['nothing', ''],
  ['a name', 'localhost'],
  ['three parts', '10.0.1'],
  ['two parts', '10.1'],
  ['one number', '167772161'],
  ['five parts', '10.0.0.0.1'],
  ['a part over 255', '10.0.0.256'],
  ['a part with four digits', '10.0.0.1000'],
  ['a leading zero', '10.0.0.01'],
  ['an octal part', '010.0.0.1'],
  ['a double zero', '10.00.0.1'],
  ['a hexadecimal part', '0x0a.0.0.1'],
  ['an empty part', '10..0.1'],
  ['a dot at the end', '10.0.0.1.'],
  ['a sign', '+10.0.0.1'],
  ['a space before', ' 10.0.0.1'],
  ['a trailing newline', '10.0.0.1\n'],
  ['digits of another script', '١0.0.0.1'],
  ['a port', '10.0.0.1:80'],
  ['a prefix', '10.0.0.1/32'],
  ['IPv4-mapped IPv6', '::ffff:10.0.0.1'],
  ['IPv4-mapped IPv6 in hexadecimal', '::ffff:a00:1'],
  ['IPv4-mapped IPv6 written out', '0:0:0:0:0:FFFF:10.0.0.1'],
  ['a zone', 'fe80::1%eth0'],
  ['brackets', '[::1]'],
  ['two gaps', '1::2::3'],
  ['three colons', ':::'],
  ['a colon alone', ':'],
  ['a single colon before', ':1:2:3:4:5:6:7'],
  ['a trailing colon', '1:2:3:4:5:6:7:'],
  ['seven groups', '1:2:3:4:5:6:7'],
  ['nine groups', '1:2:3:4:5:6:7:8:9'],
  ['eight groups and a gap', '1:2:3:4::5:6:7:8'],
  ['a group of five digits', '12345::'],
  ['a group that is no number', 'fd00::g'],
  ['an IPv4 address before the gap', '1.2.3.4::'],
  ['an IPv4 address in the middle', '::1.2.3.4:5'],
  ['an IPv4 tail with a leading zero', '64:ff9b::192.0.2.033'],
])('refuses %s', (_title, text) => {
  expect(parseAddress(text)).toBeUndefined();
});

test('an address has a family, other text has none', () => {
  expect(['10.0.0.1', 'fd00::1', 'shop'].map(familyOfAddress)).toEqual(['ipv4', 'ipv6', undefined]);
});

test('reading the canonical spelling gives the same address again', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      const address = parseAddress(text);
      fc.pre(address !== undefined);
      expect(parseAddress(address.text)).toEqual(address);
    }),
  );
});

test('every spelling of eight groups has the canonical spelling of the URL standard', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(0, 0, 0, 1, 0xffff, 0x0db8), { minLength: 8, maxLength: 8 }), (words) => {
      const address = parseAddress(words.map((word) => word.toString(16).padStart(4, '0')).join(':'));
      fc.pre(address !== undefined);
      expect(`[${address.text}]`).toBe(
        new URL(`http://[${words.map((word) => word.toString(16)).join(':')}]/`).hostname,
      );
    }),
  );
});

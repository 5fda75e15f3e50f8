import { expect, test } from 'vitest';
import { addressRange, choose, portRange } from './range.ts';

test.each([
  ['10.96.0.0/12', 1_048_573n, 256n, '10.96.0.2', '10.111.255.254'],
  ['10.96.0.0/24', 253n, 16n, '10.96.0.2', '10.96.0.254'],
  ['10.96.0.0/28', 13n, 0n, '10.96.0.2', '10.96.0.14'],
  ['10.96.0.0/30', 1n, 0n, '10.96.0.2', '10.96.0.2'],
  ['fd00:96::/112', 65_534n, 256n, 'fd00:96::2', 'fd00:96::ffff'],
  ['fd00:96::/64', (1n << 64n) - 2n, 256n, 'fd00:96::2', 'fd00:96::ffff:ffff:ffff:ffff'],
] as const)('%s has %s addresses, of which the first %s are allocated last', (cidr, size, band, first, last) => {
  const range = addressRange(cidr);
  expect([range.size, range.band, range.at(0n), range.at(range.size - 1n)]).toEqual([size, band, first, last]);
});

test.each(['10.96.0.0/31', '10.96.0.0/32', 'fd00::/128'])('%s has no usable address', (cidr) => {
  expect(addressRange(cidr).size).toBe(0n);
  expect(choose(addressRange(cidr), 'shop/web', () => true)).toBeUndefined();
});

test.each([
  [30000, 32767, 2768n, 86n],
  [30000, 30015, 16n, 0n],
  [30000, 30016, 17n, 16n],
  [1024, 65535, 64_512n, 128n],
] as const)('node ports %s to %s are %s, of which %s are allocated last', (from, to, size, band) => {
  expect(portRange({ from, to })).toMatchObject({ size, band });
});

test('every number of a range is found before it counts as exhausted, those of the band last', () => {
  const range = portRange({ from: 30000, to: 30099 });
  const taken: number[] = [];
  for (;;) {
    const next = choose(range, 'shop/web', (port) => !taken.includes(port));
    if (next === undefined) break;
    taken.push(next);
  }
  expect(taken.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, index) => 30000 + index));
  expect(taken.slice(-16)).toEqual(Array.from({ length: 16 }, (_, index) => 30000 + index));
});

test('two branches that each add a hundred Services rarely choose the same number', () => {
  const range = addressRange('10.96.0.0/12');
  const chosen = Array.from({ length: 200 }, (_, index) => choose(range, `shop/s${index} ipv4`, () => true));
  expect(new Set(chosen).size).toBe(200);
});

import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readProfile } from '../documents.ts';
import { fileDigest } from '../seal/seal.ts';
import type { BundleFiles } from '../source.ts';
import { ipvsBundle } from '../virtual/bundle.fixture.ts';
import { nftBundle, nftServices } from '../virtual/nft.fixture.ts';
import { makeRelease } from './make.ts';
import { newlyRequired, printRelease, type Release, readRelease } from './release.ts';
import { readSums, releaseSums, sumsMisfit } from './sums.ts';

const release: Release = {
  format: 1,
  requires: ['mode-iptables'],
  cluster: 'shop',
  serial: 42,
  source: '1'.repeat(40),
  expires: '2027-01-31T00:00:00Z',
  profiles: { default: { mode: 'iptables', families: ['ipv4'], needs: ['random-fully'] } },
  nodes: {
    '1e3': { profile: 'default', version: '8000000000000000' },
    'node-a': { profile: 'default', version: 'a'.repeat(16) },
  },
};

describe('release.yaml', () => {
  test('reads back, even where names and digests look like numbers', () => {
    expect(readRelease(printRelease(release))).toEqual(release);
  });

  test('as printed, or with one character changed, is read as any other YAML is', () => {
    const name = fc.constantFrom('node-a', '1e3', '12', 'a.b', 'constructor', '__proto__', 'é', 'a"b', 'a b');
    const entry = fc.record({ profile: name, version: fc.constantFrom('8000000000000000', 'abcdef0123456789') });
    const edit = fc.record({ at: fc.nat(), to: fc.constantFrom('', ' ', '\n', '"', ':', '#', 'a', '0', '\\', '}') });
    fc.assert(
      fc.property(fc.dictionary(name, entry), fc.option(edit), (nodes, change) => {
        const printed = printRelease({ ...release, nodes });
        const at = (change?.at ?? 0) % printed.length;
        const text = change ? printed.slice(0, at) + change.to + printed.slice(at + 1) : printed;
        const [read, general] = [readRelease(text), readRelease(`# no printed form\n${text}`)];
        const told = (one: typeof read): unknown => ('code' in one ? one.code : one);
        expect(told(read)).toEqual(told(general));
      }),
      runs(300),
    );
  });

  test('has the same bytes for any order of nodes', () => {
    const turned = { ...release, nodes: Object.fromEntries(Object.entries(release.nodes).toReversed()) };
    expect(printRelease(turned)).toBe(printRelease(release));
  });

  test.each([
    ['another format', 'format: 1', 'format: 2'],
    ['a feature that is not known', 'requires: [mode-iptables]', 'requires: [mode-none]'],
    ['a serial of 2^53', 'serial: 42', 'serial: 9007199254740992'],
    ['serial 0', 'serial: 42', 'serial: 0'],
    ['a serial that is a text', 'serial: 42', 'serial: "42"'],
    ['a short commit', `"${'1'.repeat(40)}"`, '"1111111"'],
    ['a day that the calendar lacks', '2027-01-31', '2027-02-29'],
    ['local time', '00:00:00Z', '00:00:00'],
    ['a key twice', 'serial: 42', 'serial: 42\nserial: 43'],
    ['an unknown key', 'serial: 42', 'serial: 42\nrun: /bin/sh'],
    ['an alias', 'cluster: "shop"', 'cluster: &a "shop"\nnote: *a'],
    ['a version of another form', '8000000000000000', '800'],
    ['a need that is not known', 'random-fully', 'random'],
  ])('is refused with %s', (_title, from, to) => {
    const text = printRelease(release).replace(from, to);
    expect(text).not.toBe(printRelease(release));
    expect(readRelease(text)).toMatchObject({ code: 'RELEASE_INVALID' });
  });
});

test('a release requires primary-node-ports when a profile has `primary` beside networks', () => {
  const requiresOf = (list: string): unknown => {
    const path = 'profiles/default/profile.yaml';
    const files = new Map(ipvsBundle).set(
      path,
      (ipvsBundle.get(path) ?? '').replace('Addresses: []', `Addresses: ${list}`),
    );
    const made = makeRelease(files, { serial: 1, source: 'c'.repeat(40) });
    return 'requires' in made ? made.requires : made;
  };
  expect(requiresOf('[10.0.0.0/8]')).toEqual(['mode-ipvs']);
  expect(requiresOf('[10.0.0.0/8, primary]')).toEqual(['mode-ipvs', 'primary-node-ports']);
});

test.each([
  ['a scheduler', { 'goto n': 'goto i', 'goto pn': 'goto pi', 'goto l': 'goto il', 'goto pl': 'goto pil' }],
  ['a Maglev table', { 'n${count}': 'm1009', 'l${localCount}': 'ml1009' }],
  ['a weight', { '${slot}': '${slot:3}', '${localSlot}': '${localSlot:3}' }],
])('a release requires nft-schedulers where a Service of mode nftables has %s', (_title, words) => {
  const requiresOf = (files: BundleFiles): unknown => {
    const made = makeRelease(files, { serial: 1, source: 'c'.repeat(40) });
    return 'requires' in made ? made.requires : made;
  };
  const { 'shop/chosen': chosen = '', ...plain } = nftServices;
  expect(requiresOf(nftBundle(plain))).toEqual(['mode-nftables']);
  expect(requiresOf(nftBundle({ 'shop/chosen': chosen }))).toContain('nft-schedulers');
  const path = 'profiles/default/services/shop/web.nft';
  let text = nftBundle(plain).get(path) ?? '';
  for (const [from, to] of Object.entries(words)) text = text.replaceAll(from, to);
  expect(requiresOf(new Map(nftBundle(plain)).set(path, text))).toEqual(['mode-nftables', 'nft-schedulers']);
});

test('a release with unsupported features is refused with their names and a hint', () => {
  const text = printRelease(release).replace('requires: [mode-iptables]', 'requires: [mode-iptables, mode-none]');
  expect(readRelease(text)).toMatchObject({
    message: expect.stringContaining(
      'it requires mode-none, but this version supports accept-removal, endpoint-counters, localhost-listener',
    ),
    hint: expect.stringContaining('Upgrade sluiced first'),
  });
});

test('a bundle in a mode that is not known is refused with what to do first', () => {
  const path = 'profiles/default/profile.yaml';
  const text = (nftBundle({}).get(path) ?? '').replace('mode: nftables', 'mode: ebpf');
  expect(readProfile(path, text)).toMatchObject({
    code: 'BUNDLE_INVALID',
    message: expect.stringContaining('mode is "ebpf"'),
    hint: expect.stringContaining('upgrade sluiced first'),
  });
});

test('what nodes may not support yet are features after 0.1.0 that the release before did not require', () => {
  const requires = ['mode-ipvs', 'mode-nftables', 'nft-schedulers', 'waves'] as const;
  expect(newlyRequired({ requires }, undefined)).toEqual(['mode-nftables', 'nft-schedulers']);
  expect(newlyRequired({ requires }, { requires: ['mode-nftables'] })).toEqual(['nft-schedulers']);
  expect(newlyRequired({ requires: ['mode-ipvs', 'urgent', 'revisions'] }, { requires: [] })).toEqual([]);
  const old = readFileSync(join(import.meta.dirname, '../../../../test/upgrade/0.1.0/release/release.yaml'), 'utf8');
  const read = readRelease(old);
  expect('requires' in read && newlyRequired(read, undefined), 'a release that 0.1.0 made').toEqual([]);
});

const paths = [
  'cluster.yaml',
  'nodes/node-a/node.yaml',
  'nodes/node-b/node.yaml',
  'profiles/big/profile.yaml',
  'profiles/default/profile.yaml',
  'profiles/default/services/shop/web.iptables',
  'release.yaml',
];
const digests = new Map(paths.map((path) => [path, fileDigest(path)]));
const sums = releaseSums(digests);
const without = (...lost: readonly string[]): Map<string, string> =>
  new Map([...digests].filter(([path]) => !lost.includes(path)));

describe('SHA256SUMS', () => {
  test('names every file with its digest, release.yaml too, in byte order', () => {
    expect(sums.split('\n').map((line) => line.slice(66))).toEqual([...paths, '']);
    expect(readSums(sums)).toEqual(digests);
  });

  test.each([
    ['all files', digests, 'it fits'],
    ['another node missing', without('nodes/node-b/node.yaml'), 'it fits'],
    ['a whole profile missing', without('profiles/big/profile.yaml'), 'it fits'],
    [
      'a part of a profile missing',
      without('profiles/default/services/shop/web.iptables'),
      'web.iptables is listed, but missing',
    ],
    ['cluster.yaml missing', without('cluster.yaml'), 'cluster.yaml is listed, but missing'],
    ['release.yaml missing', without('release.yaml'), 'release.yaml is listed, but missing'],
    ['a file more', new Map([...digests, ['quarantine.yaml', fileDigest('x')]]), 'does not name quarantine.yaml'],
    ['a file changed', new Map([...digests, ['cluster.yaml', fileDigest('x')]]), 'cluster.yaml has another digest'],
  ])('is compared with a directory with %s', (_title, there, expected) => {
    expect(sumsMisfit(sums, there) ?? 'it fits').toContain(expected);
  });

  const [first, second] = sums.split('\n') as [string, string];
  test.each([
    ['a last line without an end', sums.slice(0, -1)],
    ['nothing at all', ''],
    ['lines in another order', sums.replace(`${first}\n${second}\n`, `${second}\n${first}\n`)],
    ['a line twice', `${first}\n${sums}`],
    ['the line of a path that no bundle has', `${first.slice(0, 66)}../etc/passwd\n${sums}`],
    ['the line of a signature', `${first.slice(0, 66)}SHA256SUMS.sig\n`],
    ['capital digits', sums.toUpperCase()],
    ['Windows line ends', sums.replaceAll('\n', '\r\n')],
    ['the mark of binary mode', sums.replace('  ', ' *')],
    ['a comment', `# by me\n${sums}`],
  ])('is refused with %s', (_title, text) => {
    expect(readSums(text)).toBeTypeOf('string');
  });
});

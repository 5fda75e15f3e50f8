import { fileDigest, readSums, releaseSums } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mediaTypes, readManifest } from '../registry/artifact.ts';
import { blobFile, layoutContent } from './layout.ts';
import { type LayerMemo, type Packed, packRelease, type PackedRelease } from './pack.ts';
import { pullRelease } from './pull.ts';
import { isInBucket, mergeSums, splitRelease } from './split.ts';

const terms = { cluster: 'shop', serial: 7 };

/** Adds `SHA256SUMS`. */
function sealed(files: ReadonlyMap<string, string>): Map<string, string> {
  const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
  return new Map([...files, ['SHA256SUMS', releaseSums(digests)]]);
}

const everything = ({ index, manifests, blobs }: PackedRelease): readonly Packed[] => [index, ...manifests, ...blobs];

/** The release as a reader gets it, from an image layout in memory. */
async function pulled(release: PackedRelease, node?: string, profile = ''): Promise<ReadonlyMap<string, string>> {
  const stored = new Map(everything(release).map(({ descriptor, bytes }) => [blobFile(descriptor.digest), bytes]));
  stored.set('index.json', Buffer.from('{"manifests":[]}'));
  const content = layoutContent('memory', async (path) => {
    const bytes = stored.get(path);
    return bytes && Buffer.from(bytes);
  });
  const part = node === undefined ? undefined : { node, profileOf: () => profile };
  return (await pullRelease(content, release.index.descriptor.digest, part)).files;
}

const label = fc.stringMatching(/^[a-z0-9]{1,3}$/);
const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const service = fc
  .tuple(fc.constantFrom('a', 'b'), label, label, fc.constantFrom('iptables', 'ip6tables', 'ipset', 'ipvs', 'nft'))
  .map(([profile, namespace, name, tool]) => `profiles/${profile}/services/${namespace}/${name}.${tool}`);
const path = fc.oneof(
  { weight: 8, arbitrary: service },
  { weight: 4, arbitrary: label.map((name) => `nodes/${name}/node.yaml`) },
  fc.constantFrom(
    'release.yaml',
    'waves.yaml',
    'cluster.yaml',
    'quarantine.yaml',
    '.gitattributes',
    'profiles/a/profile.yaml',
    'profiles/b/base/first.nft',
  ),
);
const bundle = fc
  .array(fc.tuple(path, text), { minLength: 1, maxLength: 300 })
  .map((entries) => sealed(new Map(entries)));

describe('a release that was split into layers', () => {
  test('has the same bytes with a memo of any releases before', () => {
    fc.assert(
      fc.property(fc.array(bundle, { minLength: 2, maxLength: 4 }), (releases) => {
        const memo: LayerMemo = new Map();
        for (const files of releases) expect(packRelease(terms, files, memo)).toEqual(packRelease(terms, files));
      }),
      runs(30),
    );
  });

  test('is joined byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(bundle, async (files) => {
        expect(await pulled(packRelease(terms, files))).toEqual(files);
      }),
      runs(60),
    );
  });

  test('gives a node its own file and profile, with all of SHA256SUMS', async () => {
    await fc.assert(
      fc.asyncProperty(bundle, label, async (files, node) => {
        const got = await pulled(packRelease(terms, files), node, 'a');
        const wanted = [...files].filter(
          ([one]) =>
            !/^(?:nodes|profiles)\//.test(one) || one === `nodes/${node}/node.yaml` || one.startsWith('profiles/a/'),
        );
        expect(Object.fromEntries(got)).toMatchObject(Object.fromEntries(wanted));
        expect([...got.keys()].filter((one) => one.startsWith('profiles/b/'))).toEqual([]);
      }),
      runs(60),
    );
  });

  test('does not depend on the order of its files', () => {
    fc.assert(
      fc.property(bundle, (files) => {
        const other = packRelease(terms, new Map([...files].toReversed()));
        expect(other.index.descriptor).toEqual(packRelease(terms, files).index.descriptor);
      }),
      runs(30),
    );
  });
});

const services = 2_000;
const nodes = 300;
function large(serial: number, change?: string): Map<string, string> {
  const files = new Map([
    ['cluster.yaml', 'name: shop\n'],
    ['release.yaml', `serial: ${serial}\n`],
    ['profiles/default/profile.yaml', 'mode: iptables\n'],
  ]);
  for (let n = 0; n < nodes; n++) files.set(`nodes/node-${n}/node.yaml`, `number: ${n}\n`);
  for (let n = 0; n < services; n++)
    files.set(`profiles/default/services/ns-${n % 7}/svc-${n}.iptables`, `rule ${n}\n`);
  if (change !== undefined) files.set(change, 'changed\n');
  return sealed(files);
}

/** What a reader that has one release fetches of the next one. */
function fresh(before: PackedRelease, after: PackedRelease): readonly Packed[] {
  const had = new Set(everything(before).map(({ descriptor }) => descriptor.digest));
  return everything(after).filter(({ descriptor }) => !had.has(descriptor.digest));
}

test('one changed Service changes the index, both manifests, the first layer, one layer of sums and one of its profile', () => {
  const before = large(1);
  const one = 'profiles/default/services/ns-3/svc-700.iptables';
  const after = large(2, one);
  const changed = fresh(packRelease(terms, before), packRelease({ ...terms, serial: 8 }, after));
  expect(changed.map(({ descriptor }) => descriptor.artifactType ?? descriptor.mediaType)).toEqual([
    mediaTypes.releaseIndex,
    mediaTypes.shared,
    mediaTypes.profile,
    mediaTypes.archive,
    mediaTypes.archive,
    mediaTypes.archive,
  ]);
  const split = splitRelease(after);
  const old = splitRelease(before);
  const differs = (now: ReadonlyMap<string, string>, index: number, then: readonly ReadonlyMap<string, string>[]) =>
    [...now].some(([name, content]) => then[index]?.get(name) !== content);
  expect(
    split.shared.flatMap((layer, n) => (differs(layer, n, old.shared) ? [n === 0 ? 'small' : 'sums'] : [])),
  ).toEqual(['small', 'sums']);
  const layers = (of: typeof split) => of.profiles[0]?.layers ?? [];
  const other = layers(split).filter((layer, n) => differs(layer, n, layers(old)));
  expect(other.map((layer) => layer.get(one))).toEqual(['changed\n']);
});

test('a changed node changes one layer of nodes, and no profile', () => {
  const changed = fresh(packRelease(terms, large(1)), packRelease(terms, large(1, 'nodes/node-12/node.yaml')));
  expect(changed.filter(({ descriptor }) => descriptor.artifactType === mediaTypes.profile)).toEqual([]);
  const annotated = changed.flatMap(({ descriptor }) => Object.values(descriptor.annotations ?? {}));
  expect(annotated.map((bucket) => isInBucket(bucket, 'node-12'))).toEqual([true]);
});

test('layers have at most about twice 64 files, and a profile at most 128 layers', () => {
  const { shared, nodes: ofNodes, profiles } = splitRelease(large(1));
  expect([shared.length - 1, ofNodes.length, profiles[0]?.layers.length]).toEqual([64, 8, 32]);
  const sizes = (profiles[0]?.layers ?? []).map((layer) => layer.size);
  expect(Math.max(...sizes)).toBeLessThan(128);
});

test.each([
  ['3/16', false],
  ['0/1', true],
  ['1/0', undefined],
  ['x', undefined],
  ['', undefined],
  ['-1/16', undefined],
  ['1/100000', undefined],
])('the bucket %s of a node is %s', (bucket, is) => {
  expect(isInBucket(bucket, 'node-1')).toBe(is);
});

test.each<[title: string, parts: readonly string[], joined: string | undefined]>([
  ['without a part', [], undefined],
  ['that has no line feed', [`${'a'.repeat(64)}  b\n`, `${'a'.repeat(64)}  a`], undefined],
  [
    'of two parts',
    [`${'a'.repeat(64)}  b\n`, `${'a'.repeat(64)}  a\n`],
    `${'a'.repeat(64)}  a\n${'a'.repeat(64)}  b\n`,
  ],
])('SHA256SUMS %s is joined to what it says, or not at all', (_title, parts, joined) => {
  expect(mergeSums(parts)).toBe(joined);
});

test('a line that is in two parts is refused with the sums', () => {
  const line = `${'a'.repeat(64)}  cluster.yaml\n`;
  expect(readSums(mergeSums([line, line]) ?? '')).toBe('line 2 is out of order, or repeats a path');
});

test('the reader of 0.1.0 refuses an index with its type', () => {
  const { index } = packRelease(terms, large(1));
  expect(() => readManifest('sha256:x', Buffer.from(index.bytes), mediaTypes.release)).toThrow(
    'Cannot use sha256:x: its type is "application/vnd.sluice.release.v2", not application/vnd.sluice.release.v1',
  );
});

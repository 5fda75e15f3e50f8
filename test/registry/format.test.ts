// @module-tag test
import { readdirSync } from 'node:fs';
import { zstdCompressSync } from 'node:zlib';
import { fileDigest, printArchive } from '@sluice/bundle';
import { describe, expect, test } from 'vitest';
import type { FakeRegistry } from './fake.fixture.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { filesOf } from './release.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/** Registries whose documents lie: none of their data are written. */

const { at, start, push, pull } = registryScene();
type Document = Record<string, unknown>;
const indexType = 'application/vnd.oci.image.index.v1+json';
const manifestType = 'application/vnd.oci.image.manifest.v1+json';

function store(registry: FakeRegistry, document: object, type: string): { digest: string; size: number } {
  const bytes = Buffer.from(JSON.stringify(document));
  const digest = `sha256:${fileDigest(bytes)}`;
  registry.manifests.set(digest, { bytes, type });
  return { digest, size: bytes.length };
}
function pushedDocument(registry: FakeRegistry, artifactType: string): Document {
  const all = [...registry.manifests.values()].map(({ bytes }) => JSON.parse(String(bytes)) as Document);
  return all.find((one) => one['artifactType'] === `application/vnd.sluice.${artifactType}`) ?? {};
}
/** Replaces the pushed index by another one, under a digest of its own. */
function replaceIndex(registry: FakeRegistry, change: (index: Document) => object): string {
  const { digest } = store(registry, change(pushedDocument(registry, 'release.v2')), indexType);
  return `${registry.host}/shop@${digest}`;
}
/** Replaces a manifest, and the index that names it. */
function replaceManifest(
  registry: FakeRegistry,
  change: (manifest: Document) => object,
  type: 'shared.v2' | 'profile.v2' = 'shared.v2',
): string {
  const own = store(registry, change(pushedDocument(registry, type)), manifestType);
  let isReplaced = false;
  return replaceIndex(registry, (index) => ({
    ...index,
    manifests: manifestsOf(index).map((entry) => {
      if (isReplaced || entry['artifactType'] !== `application/vnd.sluice.${type}`) return entry;
      isReplaced = true;
      return { ...entry, ...own };
    }),
  }));
}
const manifestsOf = (index: Document): Document[] => index['manifests'] as Document[];
const layersOf = (manifest: Document): Document[] => manifest['layers'] as Document[];
/** A blob of the registry, as the only layer. */
function layer(registry: FakeRegistry, bytes: Buffer, size = bytes.length): string {
  const digest = `sha256:${fileDigest(bytes)}`;
  registry.blobs.set(digest, bytes);
  return replaceManifest(registry, (manifest) => ({ ...manifest, layers: [{ mediaType: 'x', digest, size }] }));
}
/** The pushed release as the first version of the format has it. @param change the layers: of shared files, then of profiles */
function firstVersion(registry: FakeRegistry, change: (layers: Document[]) => Document[] = (layers) => layers): string {
  const files = Object.entries(filesOf(at('release'))).filter(([path]) => !path.endsWith('.sig'));
  const groups = Map.groupBy(files, ([path]) => /^profiles\/([^/]+)/.exec(path)?.[1] ?? '');
  const layers = [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([profile, entries]) => {
      const bytes = Buffer.from(printArchive({ files: new Map(entries) }));
      const digest = `sha256:${fileDigest(bytes)}`;
      registry.blobs.set(digest, bytes);
      const annotations = profile === '' ? {} : { 'dev.sluice.profile': profile };
      return { mediaType: 'application/vnd.sluice.archive.v1.tar+zstd', digest, size: bytes.length, annotations };
    });
  const artifactType = 'application/vnd.sluice.release.v1';
  const { digest } = store(registry, { schemaVersion: 2, artifactType, layers: change(layers) }, manifestType);
  return `${registry.host}/shop@${digest}`;
}

const lies: readonly [title: string, prepare: (registry: FakeRegistry, pushed: string) => string, says: string][] = [
  [
    'a manifest with other bytes than its digest',
    (registry, pushed) => {
      const key = pushed.trim().split('@')[1] as string;
      const { bytes, type } = registry.manifests.get(key) ?? { bytes: Buffer.alloc(0), type: '' };
      registry.manifests.set(key, { bytes: Buffer.concat([bytes, Buffer.from(' ')]), type });
      return pushed;
    },
    'its bytes do not match the digest',
  ],
  [
    'a layer with other bytes than its digest',
    (registry, pushed) => {
      for (const [key, bytes] of registry.blobs) registry.blobs.set(key, Buffer.from(bytes).fill(0, 1, 2));
      return pushed;
    },
    'its bytes do not match the digest',
  ],
  [
    'a layer that is longer than declared',
    (registry) => layer(registry, Buffer.alloc(100), 99),
    'the response is larger than 99 bytes',
  ],
  [
    'a layer of a terabyte',
    (registry) =>
      replaceManifest(registry, (m) => ({ ...m, layers: layersOf(m).map((one) => ({ ...one, size: 1e12 })) })),
    'the limit is 268435456',
  ],
  ['a layer that is not an archive', (registry) => layer(registry, Buffer.from('x')), 'not a zstd archive'],
  [
    'a layer that unpacks to far more than its size',
    (registry) => layer(registry, zstdCompressSync(Buffer.alloc(64 * 1024 * 1024))),
    'unpacks to more than',
  ],
  ['an image of something else', (r) => replaceManifest(r, (m) => ({ ...m, artifactType: 'x' })), 'its type is "x"'],
  [
    'an index of something else',
    (r) => replaceIndex(r, (index) => ({ ...index, artifactType: 'x' })),
    'its type is "x", not application/vnd.sluice.release.v1 or application/vnd.sluice.release.v2',
  ],
  [
    'an index without shared files',
    (r) => replaceIndex(r, (index) => ({ ...index, manifests: manifestsOf(index).slice(1) })),
    'it must have one manifest of the shared files',
  ],
  [
    'an index with shared files twice',
    (r) => replaceIndex(r, (index) => ({ ...index, manifests: [...manifestsOf(index), ...manifestsOf(index)] })),
    'it must have one manifest of the shared files',
  ],
  [
    'an index of thousands',
    (r) => replaceIndex(r, (index) => ({ ...index, manifests: Array(5_000).fill(manifestsOf(index)[1]) })),
    'it has more than 256 manifests',
  ],
  [
    'one manifest twice',
    (r) => replaceIndex(r, (index) => ({ ...index, manifests: [...manifestsOf(index), manifestsOf(index)[1]] })),
    'two of its layers contain the same files',
  ],
  [
    'layers that are too large together',
    (r) => replaceManifest(r, (m) => ({ ...m, layers: layersOf(m).map((one) => ({ ...one, size: 2 ** 27 + 1 })) })),
    'and the limit is 268435456',
  ],
  [
    'a signature in a layer',
    (r) => layer(r, Buffer.from(printArchive({ files: new Map([['SHA256SUMS.sig', 'x']]) }))),
    'it contains SHA256SUMS.sig',
  ],
  [
    'a file of one layer in another',
    (r) => {
      const bytes = Buffer.from(printArchive({ files: new Map([['cluster.yaml', 'x']]) }));
      const digest = `sha256:${fileDigest(bytes)}`;
      r.blobs.set(digest, bytes);
      const added = { mediaType: 'x', digest, size: bytes.length };
      return replaceManifest(r, (m) => ({ ...m, layers: [...layersOf(m), added] }));
    },
    'two of its layers contain cluster.yaml',
  ],
  [
    'a shared file in a profile',
    (r) => {
      const bytes = Buffer.from(printArchive({ files: new Map([['waves.yaml', 'x']]) }));
      const digest = `sha256:${fileDigest(bytes)}`;
      r.blobs.set(digest, bytes);
      const added = { mediaType: 'x', digest, size: bytes.length };
      return replaceManifest(r, (m) => ({ ...m, layers: [...layersOf(m), added] }), 'profile.v2');
    },
    'it contains waves.yaml',
  ],
  [
    'no line of SHA256SUMS for its files',
    (r) => replaceManifest(r, (m) => ({ ...m, layers: layersOf(m).toSpliced(1, 1) })),
    'SHA256SUMS does not match the files',
  ],
  [
    'a profile under the name of another one',
    (r) =>
      replaceIndex(r, (index) => {
        const [shared, one, other] = manifestsOf(index);
        return { ...index, manifests: [shared, { ...one, digest: other?.['digest'], size: other?.['size'] }] };
      }),
    'it contains profiles/',
  ],
  ['no layer', (r) => replaceManifest(r, (m) => ({ ...m, layers: [] })), 'must have 1 to'],
  ['a layer without a digest', (r) => replaceManifest(r, (m) => ({ ...m, layers: [{}] })), 'a descriptor without'],
  [
    'a digest that leads out of the repository',
    (r) => replaceManifest(r, (m) => ({ ...m, layers: [{ mediaType: 'x', digest: '../../x', size: 1 }] })),
    'a descriptor without',
  ],
  [
    'one layer twice',
    (r) => replaceManifest(r, (m) => ({ ...m, layers: [...layersOf(m), ...layersOf(m).slice(1)] })),
    'two of its layers contain',
  ],
  [
    'no shared layer, in the first version',
    (r) => firstVersion(r, (layers) => layers.slice(1)),
    'the layer of the shared files is missing',
  ],
  [
    'one layer twice, in the first version',
    (r) => firstVersion(r, (layers) => [...layers, ...layers.slice(1)]),
    'two of its layers contain',
  ],
];

describe('a registry that gives', () => {
  test.each(lies)('%s is refused, and nothing is written', async (_title, prepare, says) => {
    const registry = await start({ referrers: true });
    const { stdout } = await push(registry);
    const { status, stderr } = await pull(prepare(registry, stdout));
    expect(stderr).toContain(says);
    expect(status).toBe(2);
    expect(readdirSync(at(''))).not.toContain('pulled');
  });

  test('a bucket of nodes in another form is refused', async () => {
    const registry = await start({ referrers: true });
    await push(registry);
    const annotations = { 'dev.sluice.nodes': '1/0' };
    const reference = replaceManifest(registry, (m) => ({
      ...m,
      layers: layersOf(m).map((one) => (one['annotations'] === undefined ? one : { ...one, annotations })),
    }));
    const [node = ''] = readdirSync(at('release/nodes'));
    const { stderr } = await sluice('pull', reference, '--node', node, '-o', at('pulled'));
    expect(stderr).toContain('its nodes are not of the form BUCKET/COUNT');
  });

  test('the first version of the format is read, whole and for one node', async () => {
    const registry = await start({ referrers: true });
    await push(registry);
    const reference = firstVersion(registry);
    expect(await pull(reference)).toMatchObject({ status: 0 });
    const { 'SHA256SUMS.sig': _signature, ...files } = filesOf(at('release'));
    expect(filesOf(at('pulled'))).toEqual(files);
    const [node = ''] = readdirSync(at('release/nodes'));
    expect(await sluice('pull', reference, '--node', node, '-o', at('part'))).toMatchObject({ status: 0 });
    expect(readdirSync(at('part/profiles'))).toHaveLength(1);
  });

  test('a signature with a name outside of the release is refused', async () => {
    const registry = await start({ referrers: true });
    const { stdout } = await push(registry);
    for (const [key, { bytes, type }] of new Map(registry.manifests)) {
      const text = bytes.toString('utf8').replace('SHA256SUMS.sig', '../SHA256SUMS.sig');
      if (text === bytes.toString('utf8')) continue;
      registry.manifests.delete(key);
      registry.manifests.set(`sha256:${fileDigest(text)}`, { bytes: Buffer.from(text), type });
    }
    expect((await pull(stdout)).stderr).toContain('it contains the file "../SHA256SUMS.sig"');
  });
});

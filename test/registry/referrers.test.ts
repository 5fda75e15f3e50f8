// @module-tag test
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { fileDigest, printOpening } from '@sluice/bundle';
import { describe, expect, test } from 'vitest';
import type { FakeRegistry, Nature } from './fake.fixture.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { fakeSignature, filesOf, signatureOf } from './release.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/** Every account with write access to a repository can add referrers of a release: they hide no referrer of another account. */

const scene = registryScene();
const { at } = scene;
const start = (nature: Nature): Promise<FakeRegistry> => scene.start({ referrers: true, ...nature });
async function push(registry: FakeRegistry): Promise<string> {
  return (await sluice('push', at('release'), `${registry.host}/shop:1`)).stdout.trim();
}
/** @returns the messages, and the files that are not covered by a digest */
async function pull(reference: string): Promise<{ status: number; stderr: string; files: Record<string, string> }> {
  rmSync(at('pulled'), { recursive: true, force: true });
  const { status, stderr } = await sluice('pull', reference, '-o', at('pulled'));
  const files = status === 0 ? Object.entries(filesOf(at('pulled'))) : [];
  return { status, stderr, files: Object.fromEntries(files.filter(([name]) => /\.sig$|^waves-open/.test(name))) };
}
const sumsDigest = (): string => fileDigest(readFileSync(at('release/SHA256SUMS')));
function open(waves: number, signature?: string, release = sumsDigest()): void {
  writeFileSync(at('release/waves-open.yaml'), printOpening({ release, open: waves }));
  rmSync(at('release/waves-open.yaml.sig'), { force: true });
  if (signature !== undefined) writeFileSync(at('release/waves-open.yaml.sig'), signature);
}

describe('of several wave openings', () => {
  // Which digest is smaller is chance: so there are many.
  test.each(Array.from({ length: 8 }, (_, i) => fakeSignature(String(i))))(
    'the one that was signed after the push counts (%#)',
    async (signature) => {
      const registry = await start({});
      open(1);
      await push(registry);
      open(1, signature);
      const { files } = await pull(await push(registry));
      expect(files['waves-open.yaml.sig']).toBe(signature);
    },
  );

  test.each([
    ['without a signature', undefined],
    ['with an invalid signature', 'signature\n'],
    ['that was signed as a release', fakeSignature('other', 'sluice-release')],
  ])('one %s does not hide a signed one, however many waves it opens', async (_what, signature) => {
    const registry = await start({});
    open(1, fakeSignature('own'));
    await push(registry);
    open(64, signature);
    const { files, stderr } = await pull(await push(registry));
    expect(files).toMatchObject({
      'waves-open.yaml': printOpening({ release: sumsDigest(), open: 1 }),
      'waves-open.yaml.sig': fakeSignature('own'),
    });
    expect(stderr).toMatch(/ignored: sha256:[0-9a-f]{64} opens 64 waves without a signature\n/);
  });

  test('without signatures the one with the most waves counts', async () => {
    const registry = await start({});
    for (const waves of [1, 3, 2]) {
      open(waves);
      await push(registry);
    }
    const { files } = await pull(await push(registry));
    expect(files['waves-open.yaml']).toBe(printOpening({ release: sumsDigest(), open: 3 }));
    expect(files).not.toHaveProperty('waves-open.yaml.sig');
  });

  describe('after a closing', () => {
    const close = (closings: number, waves: number, signature?: string): void => {
      open(waves, signature);
      writeFileSync(at('release/waves-open.yaml'), printOpening({ release: sumsDigest(), closings, open: waves }));
    };

    test.each([[[0, 1, 2]], [[2, 0, 1]], [[1, 2, 0]]])(
      'the newest one counts, pushed in the order %j',
      async (order) => {
        const registry = await start({});
        const pushes = [
          () => open(64, fakeSignature('a')),
          () => close(1, 3, fakeSignature('b')),
          () => close(2, 0, fakeSignature('c')),
        ];
        let reference = '';
        for (const which of order) {
          pushes[which]?.();
          reference = await push(registry);
        }
        const { files, stderr } = await pull(reference);
        expect(files).toMatchObject({
          'waves-open.yaml': printOpening({ release: sumsDigest(), closings: 2, open: 0 }),
          'waves-open.yaml.sig': fakeSignature('c'),
        });
        expect(stderr).not.toContain('without a signature');
      },
    );

    test('one without a signature closes nothing that was signed', async () => {
      const registry = await start({});
      open(2, fakeSignature('own'));
      await push(registry);
      close(9, 0);
      const { files } = await pull(await push(registry));
      expect(files['waves-open.yaml']).toBe(printOpening({ release: sumsDigest(), open: 2 }));
    });
  });

  test('one of another release is ignored, signed or not', async () => {
    const registry = await start({});
    open(1);
    await push(registry);
    open(64, fakeSignature('x'), 'a'.repeat(64));
    const { files, stderr } = await pull(await push(registry));
    expect(files['waves-open.yaml']).toBe(printOpening({ release: sumsDigest(), open: 1 }));
    expect(stderr).toContain('it is an opening of another release');
  });
});

type RawManifest = Record<string, unknown> & { layers: Record<string, unknown>[]; subject: Record<string, unknown> };

/** Adds a copy of the signature's manifest, changed. @returns its digest */
function addReferrer(registry: FakeRegistry, change: (manifest: RawManifest) => object): string {
  const own = [...registry.manifests.values()].find(({ bytes }) => bytes.includes('vnd.sluice.signature.v1'));
  const bytes = Buffer.from(JSON.stringify(change(JSON.parse(String(own?.bytes)) as RawManifest)));
  const digest = `sha256:${fileDigest(bytes)}`;
  registry.manifests.set(digest, { bytes, type: 'application/vnd.oci.image.manifest.v1+json' });
  return digest;
}
const title = (name: string) => ({ 'org.opencontainers.image.title': name });
const oneLayer = (manifest: RawManifest, change: object): object => ({
  ...manifest,
  layers: manifest.layers.map((layer) => ({ ...layer, ...change })),
});

describe('a release with a signature and a referrer is pulled with the signature:', () => {
  const good = { 'SHA256SUMS.sig': signatureOf('release 1') };
  /** Pushes a text to the registry. @returns its layer descriptor */
  const blob = (registry: FakeRegistry, text: string): { digest: string; size: number } => {
    const digest = `sha256:${fileDigest(text)}`;
    registry.blobs.set(digest, Buffer.from(text));
    return { digest, size: text.length };
  };

  test.each<[what: string, change: (manifest: RawManifest) => object, says: string]>([
    [
      'with a name that leads out',
      (m) => oneLayer(m, { annotations: title('../x.sig') }),
      'it contains the file "../x.sig"',
    ],
    [
      'with a name that moves the cursor',
      (m) => oneLayer(m, { annotations: title('\u009b2J') }),
      'it contains the file "?2J"',
    ],
    ['without a name', (m) => oneLayer(m, { annotations: {} }), 'it contains the file ""'],
    ['that is too large', (m) => oneLayer(m, { size: 1e6 }), 'it is 1000000 bytes, and the limit is 16384'],
    ['that is larger than it says', (m) => oneLayer(m, { size: 1 }), 'the response is larger than 1 bytes'],
    ['that is smaller than it says', (m) => oneLayer(m, { size: 1000 }), 'its bytes do not match the digest'],
    ['whose file is gone', (m) => oneLayer(m, { digest: `sha256:${'0'.repeat(64)}` }), 'answered 404'],
    ['whose file has no digest', (m) => oneLayer(m, { digest: 'md5:0' }), 'a descriptor without'],
    ['without files', (m) => ({ ...m, layers: [] }), 'it must have 1 to'],
    ['with two files', (m) => ({ ...m, layers: [...m.layers, ...m.layers] }), 'it has more than 1 files'],
  ])('%s, which is ignored', async (_what, change, says) => {
    const registry = await start({});
    const reference = await push(registry);
    addReferrer(registry, change);
    const { status, stderr, files } = await pull(reference);
    expect({ status, files }).toEqual({ status: 0, files: good });
    expect(stderr).toContain('ignored: ');
    expect(stderr).toContain(says);
  });

  test.each([
    ['no signature at all', 'garbage\n', 'SHA256SUMS.evil.sig is not well-formed: it is not exactly one SSH signature'],
    ['a signature for Git commits', fakeSignature('x', 'git'), 'it is for namespace "git"'],
    ['something behind a signature', `${signatureOf('x')}x\n`, 'it is not exactly one SSH signature'],
  ])('with %s, which is ignored', async (_what, text, says) => {
    const registry = await start({});
    const reference = await push(registry);
    const layer = { ...blob(registry, text), annotations: title('SHA256SUMS.evil.sig') };
    addReferrer(registry, (m) => oneLayer(m, layer));
    const { status, stderr, files } = await pull(reference);
    expect({ status, files }).toEqual({ status: 0, files: good });
    expect(stderr).toMatch(/ignored: Cannot use sha256:[0-9a-f]{64}: SHA256SUMS\.evil\.sig/);
    expect(stderr).toContain(says);
  });

  test('one with a signature for endpoint updates is accepted', async () => {
    const registry = await start({});
    const reference = await push(registry);
    const text = fakeSignature('x', 'sluice-endpoints');
    const layer = { ...blob(registry, text), annotations: title('SHA256SUMS.ends.sig') };
    addReferrer(registry, (m) => oneLayer(m, layer));
    expect((await pull(reference)).files).toEqual({ ...good, 'SHA256SUMS.ends.sig': text });
  });

  test.each([
    [
      'of other types, which do not count',
      (n: number) => ({ artifactType: 'application/spdx+json', n }),
      /^(?!passed)/,
    ],
    [
      'without files, of which the first count',
      (n: number) => ({ n, layers: [] }),
      /^ignored: .* all signatures and openings after the first 256$/m,
    ],
  ])('of which there are hundreds %s', async (_what, change, says) => {
    const registry = await start({});
    const reference = await push(registry);
    for (let n = 0; n < 300; n++) addReferrer(registry, (m) => ({ ...m, ...change(n) }));
    const { status, stderr, files } = await pull(reference);
    expect({ status, files }).toEqual({ status: 0, files: good });
    expect(stderr).toMatch(says);
  });

  /** A list that the registry invents. */
  const listing = (response: ServerResponse, manifests: readonly object[]): true => {
    response.writeHead(200, { 'content-type': 'application/vnd.oci.image.index.v1+json' });
    response.end(JSON.stringify({ schemaVersion: 2, manifests }));
    return true;
  };
  test.each<[what: string, change: (manifest: RawManifest) => object, entry: object, says: string]>([
    [
      'of another release',
      (m) => ({ ...m, subject: { ...m.subject, digest: `sha256:${'0'.repeat(64)}` } }),
      {},
      'refer',
    ],
    ['of nothing', (m) => ({ ...m, subject: undefined }), {}, 'it does not refer to'],
    ['of another type than listed', (m) => ({ ...m, artifactType: 'x' }), {}, 'its type is "x"'],
    ['with a digest of another kind', (m) => m, { digest: `sha512:${'0'.repeat(128)}` }, 'a descriptor without'],
    ['that is missing', (m) => m, { digest: `sha256:${'0'.repeat(64)}` }, 'answered 404'],
  ])('one %s is ignored', async (_what, change, entry, says) => {
    const artifactType = 'application/vnd.sluice.signature.v1';
    const listed: object[] = [];
    const registry = await start({
      instead: ({ url }, response) => url?.includes('/referrers/') === true && listing(response, listed),
    });
    const reference = await push(registry);
    const own = addReferrer(registry, (manifest) => manifest);
    const bad = addReferrer(registry, change);
    const descriptor = { mediaType: 'x', size: 1, artifactType };
    listed.push({ ...descriptor, digest: bad, ...entry }, { ...descriptor, digest: own });
    const { status, stderr, files } = await pull(reference);
    expect({ status, files }).toEqual({ status: 0, files: good });
    expect(stderr).toContain(says);
  });

  test('on an endless list, whose first pages count', async () => {
    const listed: object[] = [];
    const registry = await start({
      instead: ({ url }, response) => {
        if (url?.includes('/referrers/') !== true) return false;
        response.setHeader('link', `<${url}>; rel="next"`);
        return listing(response, listed.splice(0));
      },
    });
    const reference = await push(registry);
    const digest = addReferrer(registry, (manifest) => manifest);
    listed.push({ mediaType: 'x', size: 1, artifactType: 'application/vnd.sluice.signature.v1', digest });
    const { status, stderr, files } = await pull(reference);
    expect({ status, files }).toEqual({ status: 0, files: good });
    expect(stderr).toContain('all entries after 16 pages');
    expect(registry.seen.filter((line) => line.includes('/referrers/'))).toHaveLength(16);
  });

  test('that uses the name of a second signature', async () => {
    const registry = await start({});
    const reference = await push(registry);
    for (const who of ['second', 'third']) {
      const added = addReferrer(registry, (m) => oneLayer(m, blob(registry, signatureOf(who))));
      const name = `SHA256SUMS.${added.slice('sha256:'.length, 'sha256:'.length + 32)}.sig`;
      const taken = blob(registry, signatureOf(`in the place of ${who}`));
      addReferrer(registry, (m) => oneLayer(m, { ...taken, annotations: title(name) }));
    }
    const { status, files } = await pull(reference);
    expect(status).toBe(0);
    const texts = ['release 1', 'second', 'third'].map(signatureOf);
    expect(Object.values(files)).toEqual(expect.arrayContaining(texts));
    expect(Object.values(files)).toHaveLength(5);
  });
});

test('adding a signature to the list under a tag keeps all its entries', async () => {
  const registry = await start({ referrers: false });
  const reference = await push(registry);
  const tag = (reference.split('@')[1] as string).replace(':', '-');
  const read = (): object[] =>
    (JSON.parse(String(registry.manifests.get(tag)?.bytes)) as { manifests: object[] }).manifests;
  const reports = Array.from({ length: 300 }, (_, n) => ({
    mediaType: 'x',
    digest: `sha256:${fileDigest(String(n))}`,
    size: n,
    artifactType: 'application/spdx+json',
    platform: { os: 'linux' },
  }));
  const before = [...reports, ...read()];
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: before }));
  registry.manifests.set(tag, { bytes, type: 'application/vnd.oci.image.index.v1+json' });
  writeFileSync(at('release/SHA256SUMS.bob.sig'), signatureOf('bob'));
  await push(registry);
  expect(read()).toEqual([...before, expect.objectContaining({ artifactType: 'application/vnd.sluice.signature.v1' })]);
  const { files } = await pull(reference);
  expect(files).toEqual({ 'SHA256SUMS.sig': signatureOf('release 1'), 'SHA256SUMS.bob.sig': signatureOf('bob') });
});

test.each([
  ['manifest', '/manifests/', 0],
  ['file, longer than a signature', '/blobs/', 1_000],
  ['file, of endless length', '/blobs/', 1_000_000],
])('a busy registry does not drop signatures, but fails the pull: its %s', async (_what, path, words) => {
  let ready: readonly string[] | undefined;
  const registry = await start({
    instead: ({ url = '' }, response) => {
      if (ready === undefined || !url.includes(path) || ready.some((digest) => url.endsWith(digest))) return false;
      response.writeHead(503).end(Buffer.alloc(words));
      return true;
    },
  });
  const reference = await push(registry);
  const release = reference.split('@')[1] as string;
  const needs = (digest: string): readonly string[] => {
    const { manifests = [], layers = [] } = JSON.parse(String(registry.manifests.get(digest)?.bytes)) as {
      readonly [list in 'manifests' | 'layers']?: readonly { readonly digest: string }[];
    };
    return [...manifests, ...layers].map((entry) => entry.digest);
  };
  ready = [release, ...needs(release), ...needs(release).flatMap(needs)];
  expect(await pull(reference)).toMatchObject({ status: 2, stderr: expect.stringContaining('answered 503') });
});

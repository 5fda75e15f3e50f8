// @module-tag test
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileDigest, printOpening } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Content } from '../../packages/transport/src/content/content.ts';
import { directoryReader, layoutContent, webReader } from '../../packages/transport/src/content/layout.ts';
import { registryContent } from '../../packages/transport/src/content/registry.ts';
import { WebClient } from '../../packages/transport/src/http/web.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { DebianRegistry } from './debian.fixture.ts';
import { FakeRegistry } from './fake.fixture.ts';
import { StaticServer } from './static.fixture.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { filesOf, makeSampleRelease, signatureOf } from './release.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/**
 * One contract suite for all places of releases: the registry of this project, with and without the API of OCI 1.1, Debian's, which
 * predates it, and image layouts in a directory and behind a web server.
 */

const { at } = registryScene();
const nodes = readdirSync(join(import.meta.dirname, '../../examples/11-mixed/out/nodes')).toSorted();
const node = nodes[0] as string;

interface Open {
  /** Where to push to, without a tag; and where to pull from. */
  readonly place: string;
  readonly source?: string;
  readonly content: Content;
  close(): void;
}
const contentOf = (host: string): Content =>
  registryContent(new RegistryClient({ registry: host, repository: 'sluice/shop' }, { env: {} }));
const repository = (registry: FakeRegistry | DebianRegistry | string): Open | string =>
  typeof registry === 'string'
    ? registry
    : { place: `${registry.host}/sluice/shop`, content: contentOf(registry.host), close: () => registry.close() };
const layout = `oci:${at('layout')}`;
const inDirectory = layoutContent(layout, directoryReader(at('layout')));
const registries: readonly [title: string, open: () => Promise<Open | string>, missing: RegExp][] = [
  [
    'a registry that lists referrers',
    async () => repository(await FakeRegistry.open({ referrers: true })),
    /answered 404/,
  ],
  ['a registry that does not know referrers', async () => repository(await FakeRegistry.open()), /answered 404/],
  ["Debian's docker-registry", async () => repository(await DebianRegistry.open()), /answered 404/],
  [
    'an image layout in a directory',
    async () => ({ place: layout, content: inDirectory, close: () => {} }),
    /there is no such file/,
  ],
  [
    'an image layout behind a web server',
    async () => {
      const server = await StaticServer.open(at('layout'));
      const content = layoutContent(server.url, webReader(new WebClient(server.url, {})));
      return { place: layout, source: server.url, content, close: () => server.close() };
    },
    /there is no such file/,
  ],
];

describe.each(registries)('%s', (_title, open, missing) => {
  let registry: Open | undefined;
  let whyNot = '';
  beforeEach(async (context) => {
    const opened = await open();
    if (typeof opened === 'string') whyNot = opened;
    else registry = opened;
    if (whyNot !== '') context.skip(whyNot);
  });
  afterEach(() => registry?.close());
  /** The output is the reference to pull. */
  const push = async () => {
    const ran = await sluice('push', at('release'), `${registry?.place}:latest`);
    const { place = '', source = place } = registry ?? {};
    return { ...ran, stdout: ran.stdout.replace(place, source) };
  };

  test('returns what was pushed, byte for byte', async () => {
    const { status, stdout, stderr } = await push();
    expect(stderr).toContain('release 1 of ');
    expect(status).toBe(0);
    expect(stdout).toMatch(new RegExp(`^${registry?.source ?? registry?.place}@sha256:[0-9a-f]{64}\\n$`));
    expect(await sluice('pull', stdout.trim(), '-o', at('pulled'))).toMatchObject({ status: 0, stdout: '' });
    expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
    expect((await sluice('pull', stdout.trim(), '-o', at('pulled'))).stderr).toContain('unchanged');
    expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
  });

  test('says what a tag names, and that there is no such tag', async () => {
    const { stdout } = await push();
    expect(await registry?.content.resolve('latest')).toBe(stdout.trim().replace(/^.*@/, ''));
    await expect(registry?.content.resolve('other')).rejects.toMatchObject({
      problem: { code: 'REGISTRY_INVALID', message: expect.stringContaining('Cannot find the tag other') },
    });
  });

  test('accepts later signatures, of several signers, under the same digest', async () => {
    const first = await push();
    writeFileSync(at('release/SHA256SUMS.bob.sig'), signatureOf('bob'));
    const second = await push();
    writeFileSync(at('release/SHA256SUMS.carol.sig'), signatureOf('carol'));
    const third = await push();
    expect([second.stdout, third.stdout]).toEqual([first.stdout, first.stdout]);
    expect(third.stderr).toContain('0 of them new; 3 signatures');
    await sluice('pull', first.stdout.trim(), '-o', at('pulled'));
    expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
  });

  test('keeps both signatures of a signer with a new key under one name', async () => {
    writeFileSync(at('release/SHA256SUMS.sig'), signatureOf('a key that was lost'));
    await push();
    writeFileSync(at('release/SHA256SUMS.sig'), signatureOf('again'));
    const { stdout } = await push();
    const signatures = (dir: string): readonly string[] =>
      Object.entries(filesOf(at(dir))).flatMap(([name, text]) => (name.endsWith('.sig') ? [text] : []));
    const pulled = async (): Promise<readonly string[]> => {
      rmSync(at('pulled'), { recursive: true, force: true });
      expect(await sluice('pull', stdout.trim(), '-o', at('pulled'))).toMatchObject({ status: 0 });
      return signatures('pulled').toSorted();
    };
    const both = [signatureOf('a key that was lost'), signatureOf('again')].toSorted();
    expect(await pulled()).toEqual(both);
    await sluice('push', at('pulled'), `${registry?.place}:latest`);
    expect(await pulled()).toEqual(both);
  });

  test('returns the opening with the most waves', async () => {
    const release = fileDigest(readFileSync(at('release/SHA256SUMS')));
    const opening = (waves: number): string => printOpening({ release, open: waves });
    let reference = '';
    for (const waves of [0, 2, 1]) {
      writeFileSync(at('release/waves-open.yaml'), opening(waves));
      writeFileSync(at('release/waves-open.yaml.sig'), `signature of ${waves}\n`);
      reference = (await push()).stdout.trim();
    }
    await sluice('pull', reference, '-o', at('pulled'));
    expect(filesOf(at('pulled'))).toMatchObject({
      'waves-open.yaml': opening(2),
      'waves-open.yaml.sig': 'signature of 2\n',
    });
  });

  test('sends only the layers that changed', async () => {
    await push();
    const [profile] = readdirSync(at('release/profiles')) as [string];
    makeSampleRelease(at('release'), 2, { profile, text: '# changed\n' });
    expect((await push()).stderr).toContain('5 layers, 3 of them new');
  });

  test('returns the parts of one node', async () => {
    const { stdout } = await push();
    expect(await sluice('pull', stdout.trim(), '--node', node, '-o', at('pulled'))).toMatchObject({ status: 0 });
    expect(readdirSync(at('pulled/nodes'))).toEqual([node]);
    expect(readdirSync(at('pulled/profiles'))).toHaveLength(1);
    await sluice('pack', at('release'), '--node', node, '-o', at('packed'));
    await sluice('pack', at('pulled'), '--node', node, '-o', at('repacked'));
    expect(filesOf(at(''))['repacked']).toBe(filesOf(at(''))['packed']);
  });

  test('reports a missing digest', async () => {
    const reference = `${registry?.source ?? registry?.place}@sha256:${'0'.repeat(64)}`;
    const { status, stderr } = await sluice('pull', reference, '-o', at('pulled'));
    expect(status).toBe(2);
    expect(stderr).toMatch(missing);
    expect(stderr).toContain('[REGISTRY_INVALID]');
    expect(readdirSync(at(''))).not.toContain('pulled');
  });
});

// bcrypt of `s3cret`, made with libcrypt.
const htpasswd = 'alice:$2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG\n';

test("Debian's docker-registry accepts only the credentials of the docker config", async (context) => {
  const registry = await DebianRegistry.open(htpasswd);
  if (typeof registry === 'string') return context.skip(registry);
  try {
    const push = () => sluice('push', at('release'), `${registry.host}/sluice/shop:latest`);
    expect(await push()).toMatchObject({ status: 2, stderr: expect.stringContaining('[REGISTRY_ACCESS]') });
    const auth = (password: string) =>
      writeFileSync(
        at('docker/config.json'),
        JSON.stringify({ auths: { [registry.host]: { auth: Buffer.from(`alice:${password}`).toString('base64') } } }),
      );
    auth('wrong');
    expect(await push()).toMatchObject({ status: 2, stderr: expect.stringContaining('answered 401') });
    auth('s3cret');
    expect(await push()).toMatchObject({ status: 0 });
  } finally {
    registry.close();
  }
});

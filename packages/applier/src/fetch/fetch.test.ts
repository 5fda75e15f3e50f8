import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { Fetcher } from '../testing/fetch.fixture.ts';
import { GateScene } from '../testing/gate.fixture.ts';
import { DirectorySource } from './open.ts';
import type { Source } from './source.ts';

const scene = new GateScene();
const { allow, at, end, lineOf, publish, reset, signatureOf } = scene;
afterAll(end);
let fetcher: Fetcher;
beforeEach(() => {
  reset();
  fetcher = new Fetcher(scene, { dir: { path: scene.directory } });
  rmSync(fetcher.directory, { recursive: true, force: true });
});

const web = 'profiles/default/services/shop/web.iptables';
const changed = sampleBundle({ services: { 'shop/web': [7] } });

describe('a release of the source', () => {
  test('is placed, and the daemon takes it', async () => {
    publish({ serial: 5 });
    expect(await fetcher.said()).toMatch(/^placed 5: \d+ files$/);
    expect(await fetcher.taken()).toBe('serial 5');
    expect(await fetcher.said()).toBe('same');
    fetcher.restart();
    expect(await fetcher.said()).toBe('same');
  });

  test('is followed by a newer one, of which only what differs is written', async () => {
    publish({ serial: 5 });
    await fetcher.said();
    const before = fetcher.inodes();
    publish({ serial: 6, files: changed });
    expect(await fetcher.said()).toMatch(/^placed 6: /);
    expect(await fetcher.taken()).toBe('serial 6');
    const now = fetcher.inodes();
    const written = Object.keys(now).filter((path) => now[path] !== before[path]);
    expect(written).toContain(web);
    expect(written).not.toContain('cluster.yaml');
    expect(written.length).toBeLessThan(Object.keys(now).length);
  });

  test('loses files that the newer one does not have', async () => {
    publish({ serial: 5, files: sampleBundle({ services: { 'shop/web': [1], 'shop/old': [2] } }) });
    await fetcher.said();
    expect(Object.keys(fetcher.inodes()).join()).toContain('shop/old');
    publish({ serial: 6, files: changed });
    await fetcher.said();
    expect(Object.keys(fetcher.inodes()).join()).not.toContain('shop/old');
    expect(await fetcher.taken()).toBe('serial 6');
  });

  test('gets signatures and openings that are added to it', async () => {
    publish({ serial: 5 });
    await fetcher.said();
    const before = fetcher.inodes();
    writeFileSync(at('SHA256SUMS.bob.sig'), signatureOf('bob', readFileSync(at('SHA256SUMS'), 'utf8')));
    expect(await fetcher.said()).toBe('placed 5: 1 files');
    expect(fetcher.inodes()['SHA256SUMS']).toBe(before['SHA256SUMS']);
    expect(await fetcher.taken()).toBe('serial 5');
  });

  test('may be updated by keys for endpoints, once the release itself is there', async () => {
    allow(lineOf('alice'), lineOf('ends', 'namespaces="sluice-endpoints"'));
    publish({ serial: 5, revision: 1, by: ['ends'] });
    expect(await fetcher.said()).toMatch(/^refused RELEASE_ENDPOINTS_ONLY/);
    publish({ serial: 5 });
    expect(await fetcher.said()).toMatch(/^placed 5: /);
    publish({ serial: 5, revision: 1, files: changed, by: ['ends'] });
    expect(await fetcher.said()).toMatch(/^placed 5\.1: /);
  });

  test('is placed again where files were changed', async () => {
    publish({ serial: 5 });
    await fetcher.said();
    appendFileSync(join(fetcher.directory, 'release', web), '# x\n');
    fetcher.restart();
    expect(await fetcher.said()).toBe('placed 5: 1 files');
    expect(await fetcher.taken()).toBe('serial 5');
  });

  test('is made anew where something else than files was put in', async () => {
    publish({ serial: 5 });
    await fetcher.said();
    symlinkSync('/etc/passwd', join(fetcher.directory, 'release', 'waves.yaml'));
    fetcher.restart();
    expect(await fetcher.said()).toMatch(/^placed 5: /);
    expect(await fetcher.taken()).toBe('serial 5');
  });

  test('is without the files of other nodes', async () => {
    const files = sampleBundle();
    files.set('nodes/node-b/node.yaml', files.get('nodes/node-a/node.yaml') as string);
    publish({ serial: 5, files });
    await fetcher.said();
    expect(Object.keys(fetcher.inodes())).not.toContain('nodes/node-b/node.yaml');
    expect(await fetcher.taken()).toBe('serial 5');
  });
});

describe('changes nothing, after release 5, for', () => {
  test.each([
    ['an older release that is replayed', () => publish({ serial: 4 }), 'refused RELEASE_SERIAL'],
    [
      'a fork: other content with the same serial',
      () => publish({ serial: 5, files: changed }),
      'RELEASE_EQUIVOCATION',
    ],
    ['a release without signature', () => publish({ serial: 6, by: [] }), 'refused RELEASE_UNSIGNED'],
    ['a release by an unknown key', () => publish({ serial: 6, by: ['mallory'] }), 'refused RELEASE_UNSIGNED'],
    [
      'a release of another cluster',
      () => publish({ serial: 6, change: (one) => ({ ...one, cluster: 'other' }) }),
      'refused RELEASE_ELSEWHERE',
    ],
    [
      'a release without this node',
      () => publish({ serial: 6, change: (one) => ({ ...one, nodes: {} }) }),
      'refused RELEASE_',
    ],
    [
      'a file that has another digest than the signed one',
      () => (publish({ serial: 6, files: changed }), appendFileSync(at(web), '# x\n')),
      `failed SOURCE_INVALID Cannot use ${scene.directory}: ${web} has another digest`,
    ],
    [
      'a file that is missing',
      () => (publish({ serial: 6, files: changed }), rmSync(at(web))),
      `${web} is listed in SHA256SUMS, but missing`,
    ],
    [
      'a release.yaml that is not the signed one',
      () => (publish({ serial: 6 }), appendFileSync(at('release.yaml'), '# x\n')),
      'release.yaml has another digest',
    ],
    [
      'a directory without SHA256SUMS',
      () => (publish({ serial: 6 }), rmSync(at('SHA256SUMS'))),
      'SHA256SUMS is missing',
    ],
    ['a stick that is gone', () => rmSync(scene.directory, { recursive: true }), 'failed SOURCE_UNREACHABLE'],
  ])('%s', async (_title, prepare, says) => {
    publish({ serial: 5 });
    await fetcher.said();
    const before = fetcher.inodes();
    prepare();
    expect(await fetcher.said()).toContain(says);
    expect(fetcher.inodes()).toEqual(before);
    expect(await fetcher.taken()).toBe('serial 5');
    expect(existsSync(join(fetcher.directory, 'staged'))).toBe(false);
    publish({ serial: 7, files: changed });
    expect(await fetcher.said()).toMatch(/^placed 7: /);
  });
});

test('a release whose placement failed halfway is finished before anything else', async () => {
  publish({ serial: 5 });
  await fetcher.said();
  publish({ serial: 6, files: changed });
  // A folder in the place of a file cannot be replaced by one.
  rmSync(join(fetcher.directory, 'release', web));
  mkdirSync(join(fetcher.directory, 'release', web, 'x'), { recursive: true });
  expect(await fetcher.said()).toMatch(/^failed OUTPUT_UNWRITABLE/);
  rmSync(scene.directory, { recursive: true });
  expect(await fetcher.said()).toMatch(/^failed OUTPUT_UNWRITABLE/);
  rmSync(join(fetcher.directory, 'release', web), { recursive: true });
  expect(await fetcher.said()).toMatch(/^failed SOURCE_UNREACHABLE/);
  expect(await fetcher.taken()).toBe('serial 6');
});

test('a refused release is not read again until the source has another one', async () => {
  let opened = 0;
  const source = (found: string): Source => {
    const directory = new DirectorySource(scene.directory);
    return {
      name: 'counted',
      bytes: 0,
      look: async () => found,
      open: (check) => (opened++, directory.open(check)),
      close: () => undefined,
    };
  };
  publish({ serial: 5, by: [] });
  for (const found of ['a', 'a', 'a', 'b', 'b'])
    expect(await fetcher.said(source(found))).toContain('RELEASE_UNSIGNED');
  expect(opened).toBe(2);
  publish({ serial: 5 });
  expect(await fetcher.said(source('c'))).toMatch(/^placed 5/);
});

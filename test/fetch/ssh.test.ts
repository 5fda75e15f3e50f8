// @module-tag test
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';
import { commitTo } from './publish.fixture.ts';
import { SshServer } from './sshd.fixture.ts';

/** git over ssh, with Debian's sshd. */

const scene = new GateScene();
const at = (name: string): string => join(scene.scratch, name);
let server: SshServer | string = '';
beforeAll(async () => {
  server = await SshServer.open(at('sshd'));
}, 120_000);
afterAll(() => {
  if (typeof server !== 'string') server.close();
  scene.end();
});
beforeEach(() => {
  scene.reset();
  for (const name of ['fetched', 'git']) rmSync(at(name), { recursive: true, force: true });
  scene.publish({ serial: 5 });
  commitTo(at('git'), scene.directory, 'rendered');
});

test('a release comes by a key, from a server whose key is known', async (context) => {
  if (typeof server === 'string') return context.skip(server);
  const git = {
    url: `ssh://root@127.0.0.1:${server.port}${at('git')}`,
    path: 'rendered',
    knownHosts: server.knownHosts,
  };
  const fetcher = new Fetcher(scene, { git, credentials: { file: server.key } });
  expect(await fetcher.said()).toMatch(/^placed 5/);
  expect(await fetcher.taken()).toBe('serial 5');
  scene.publish({ serial: 6, files: sampleBundle({ services: { 'shop/web': [7] } }) });
  commitTo(at('git'), scene.directory, 'rendered');
  expect(await fetcher.said()).toMatch(/^placed 6/);
}, 60_000);

test('another server, or another key, is refused without a question', async (context) => {
  if (typeof server === 'string') return context.skip(server);
  writeFileSync(at('unknown'), '');
  const url = `ssh://root@127.0.0.1:${server.port}${at('git')}`;
  const strange = new Fetcher(scene, { git: { url, knownHosts: at('unknown') }, credentials: { file: server.key } });
  expect(await strange.said()).toMatch(/^failed SOURCE_ACCESS .*Host key verification failed/);
  const keyless = new Fetcher(scene, {
    git: { url, knownHosts: server.knownHosts },
    credentials: { file: at('alice') },
  });
  expect(await keyless.said()).toMatch(/^failed SOURCE_ACCESS .*Permission denied/);
}, 60_000);

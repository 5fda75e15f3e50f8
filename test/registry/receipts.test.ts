// @module-tag test
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { printArchive } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { PushConfig } from '../../packages/applier/src/config-source.ts';
import { nothingSent, sendReceipts, type SendRecord } from '../../packages/applier/src/fetch/receipts/send.ts';
import { receiptStoreOf } from '../../packages/applier/src/fetch/open.ts';
import {
  allowed,
  at,
  fleet,
  promote,
  receipts,
  release,
  say,
  states,
  withFleet,
} from '../../packages/delivery/src/commands/fleet/fleet.fixture.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { archivePath, packReceipts, placeOf } from '../../packages/transport/src/receipts/archive.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { Repository } from '../deploy/gitops-repository.ts';
import { GitHttpServer } from '../servers/git-http.ts';
import { DebianRegistry } from './debian.fixture.ts';
import { FakeRegistry } from './fake.fixture.ts';
import { PutServer } from './put-server.fixture.ts';

/** One contract suite for the stores of receipts: what a node sends, an operator reads. */

interface Store {
  /** For `--from`. */
  readonly from: string;
  readonly push: PushConfig;
  close(): Promise<void> | void;
}
const times = { intervalSeconds: 1 };
const inRegistry = (opened: FakeRegistry | DebianRegistry | string): Store | string => {
  if (typeof opened === 'string') return opened;
  const reference = `${opened.host}/sluice/shop`;
  const push = { ...times, oci: { reference, plainHttp: false } };
  return { from: `oci://${reference}`, push, close: () => opened.close() };
};
const stores: readonly [title: string, open: () => Promise<Store | string>][] = [
  ['a registry', async () => inRegistry(await FakeRegistry.open())],
  ["Debian's docker-registry", async () => inRegistry(await DebianRegistry.open())],
  [
    'a web server',
    async () => {
      const server = await PutServer.open();
      const from = `${server.url}/shop`;
      return { from, push: { ...times, https: { url: from } }, close: () => server.close() };
    },
  ],
  [
    'a Git repository over HTTP',
    async () => {
      const repository = await Repository.open({ 'README.md': 'rules\n' });
      repository.git('config', 'http.receivepack', 'true');
      const { url } = repository;
      return {
        from: `git+${url}`,
        push: { ...times, git: { url, knownHosts: '/etc/sluice/known_hosts' } },
        close: () => repository.close(),
      };
    },
  ],
  [
    'a directory',
    () => {
      const path = at('store');
      mkdirSync(path);
      return Promise.resolve({
        from: path,
        push: { ...times, dir: { path } },
        close: () => rmSync(path, { recursive: true }),
      });
    },
  ],
];

withFleet();
beforeEach(() => vi.stubEnv('DOCKER_CONFIG', at('docker')));
afterEach(() => vi.unstubAllEnvs());

const storeOf = (push: PushConfig) => receiptStoreOf(push, { environment: {}, run: runChildren() });
const send = (push: PushConfig, node: string, record: SendRecord = nothingSent, nowMs = 0) =>
  sendReceipts({ node, directory: receipts, open: () => storeOf(push), intervalMs: 1000 }, record, nowMs);
/** What `sluice fleet --from` says about each node, in the form of `states`. */
async function statesFrom(from: string): Promise<string> {
  const args = ['--from', from, '--allowed-receipts', allowed, '--release', release, '-o', 'json'];
  const { stdout, stderr } = await sluice('fleet', ...args);
  if (stdout === '') return stderr;
  const { nodes } = JSON.parse(stdout) as { nodes: { node: string; state: string; why: string | null }[] };
  return nodes
    .toSorted((a, b) => (a.node < b.node ? -1 : 1))
    .map(({ node, state, why }) => `${node} ${state}${why === null ? '' : `: ${why}`}`)
    .join(' | ');
}

describe.each(stores)('%s', (_title, open) => {
  let store: Store | undefined;
  beforeEach(async (context) => {
    const opened = await open();
    if (typeof opened === 'string') return context.skip(opened);
    store = opened;
  });
  afterEach(() => store?.close());
  const opened = (): Store => store as Store;

  test('shows the fleet as the folder of receipts does', async () => {
    const { from, push } = opened();
    expect(await statesFrom(from)).toBe('node-1 silent: no receipt | node-2 silent: no receipt');
    say('node-1', 'confirmed');
    const first = await send(push, 'node-1');
    expect(first.outcome).toMatchObject({ kind: 'sent', receipts: 1 });
    expect(await statesFrom(from)).toBe(await states());
    say('node-1', 'rolled-back', { number: 11, because: 'health failed' });
    say('node-2', 'refused', { number: 5, codes: ['RELEASE_INVALID'] });
    expect((await send(push, 'node-1', first.record, 1000)).outcome).toMatchObject({ kind: 'sent', receipts: 2 });
    expect((await send(push, 'node-2')).outcome).toMatchObject({ kind: 'sent' });
    expect(await statesFrom(from)).toBe('node-1 rolled-back: health failed | node-2 refused: refused');
    expect(await statesFrom(from)).toBe(await states());
  });

  test('opens the next wave on the receipts of the store', async () => {
    const { from, push } = opened();
    const args = ['promote', release, '--from', from, '--allowed-receipts', allowed, '--key', at('waves')];
    expect(await promote()).toMatchObject({ status: 0 });
    const silent = await sluice(...args);
    expect(silent).toMatchObject({ status: 1, stderr: expect.stringContaining('node-1 is silent') as string });
    say('node-1', 'confirmed');
    await send(push, 'node-1');
    expect((await sluice(...args)).stdout).toContain('wave 2 of 2 (others, 1 node) is open');
  });

  test('takes the archive of every node name, and the same again', async () => {
    const { push } = opened();
    const longest = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`;
    const nodes = ['10.0.0.1', 'node.lock', 'node-x', longest];
    for (const node of nodes)
      for (let time = 0; time < 2; time++) await storeOf(push).write(node, Buffer.from(`archive of ${node}`));
    const found = await storeOf(push).read([...nodes, 'node-without']);
    expect(new Map([...found].map(([node, bytes]) => [node, String(bytes)]))).toEqual(
      new Map(nodes.map((node) => [node, `archive of ${node}`])),
    );
  });

  test.each<[lie: string, make: (push: PushConfig) => Promise<void>, says: string]>([
    ['nonsense', (push) => storeOf(push).write('node-2', Buffer.from('x')), 'it is not a zstd archive'],
    [
      "another node's archive",
      async (push) => storeOf(push).write('node-2', (await storeOf(push).read(['node-1'])).get('node-1') as Uint8Array),
      'has a receipt of another node, node-1',
    ],
    [
      "another node's receipt under this name",
      async (push) => {
        const path = say('node-1', 'confirmed');
        const [text, signature] = [path, `${path}.sig`].map((file) => readFileSync(file, 'utf8'));
        const packed = packReceipts('node-2', [{ number: 12, text: text as string, signature }]);
        await storeOf(push).write('node-2', packed?.archive as Uint8Array);
      },
      'number 12: its signature is not from a key of this node',
    ],
    [
      'a bomb',
      (push) =>
        storeOf(push).write(
          'node-2',
          printArchive({ files: new Map([['node-2.0000000000000001.json', ' '.repeat(3e7)]]) }),
        ),
      'it unpacks to more than',
    ],
    ['endless data', (push) => storeOf(push).write('node-2', Buffer.alloc(3_000_000, 'x')), 'larger than'],
  ])('shows a lying archive as such, and judges the other node: %s', async (_lie, make, says) => {
    const { from, push } = opened();
    say('node-1', 'confirmed');
    await send(push, 'node-1');
    await make(push);
    const shown = await statesFrom(from);
    expect(shown).toMatch(/^node-1 runs \| node-2 silent: no valid receipt: /);
    expect(shown).toContain(says);
  });

  test('shows older receipts that were put back as what they are', async () => {
    const { from, push } = opened();
    await promote();
    say('node-1', 'confirmed', {
      number: 3,
      release: { cluster: 'shop', serial: 1, digest: 'e'.repeat(64), version: '7'.repeat(16) },
    });
    await send(push, 'node-1');
    const older = (await storeOf(push).read(['node-1'])).get('node-1') as Uint8Array;
    say('node-1', 'confirmed', { number: 4 });
    await send(push, 'node-1');
    expect(await statesFrom(from)).toContain('node-1 runs');
    await storeOf(push).write('node-1', older);
    expect(await statesFrom(from)).toContain('node-1 behind: its receipt is about');
  });
});

test('asks a registry once for each node, and lists nothing', async () => {
  const registry = await FakeRegistry.open();
  const push = { ...times, oci: { reference: `${registry.host}/sluice/shop`, plainHttp: false } };
  const nodes = Array.from({ length: 1000 }, (_, index) => `node-${index}`);
  for (const node of nodes.slice(0, 40)) await storeOf(push).write(node, Buffer.from(`archive of ${node}`));
  registry.seen.length = 0;
  expect((await storeOf(push).read(nodes)).size).toBe(40);
  expect(registry.seen.toSorted()).toEqual(
    nodes.map((node) => `GET /v2/sluice/shop/receipts/${placeOf(node).folder}/manifests/${node}`).toSorted(),
  );
  registry.close();
});

describe('a web server', () => {
  let server: PutServer;
  beforeEach(async () => {
    server = await PutServer.open();
    say('node-1', 'confirmed');
    await send({ ...times, https: { url: server.url } }, 'node-1');
  });
  afterEach(() => server.close());
  const isOf = (node: string, url: string | undefined) => url === `/receipts/${archivePath(node)}`;

  test('an endless answer about one node is a matter of that node', async () => {
    server.instead = ({ url, method }, response) => {
      if (method !== 'GET' || !isOf('node-2', url)) return false;
      response.writeHead(200);
      const more = (): void =>
        void (response.destroyed ? 0 : response.write(Buffer.alloc(65_536), () => setImmediate(more)));
      more();
      return true;
    };
    expect(await statesFrom(server.url)).toMatch(
      /^node-1 runs \| node-2 silent: .* the response is larger than 327680 bytes/,
    );
  });

  test.each([
    [403, 'REGISTRY_ACCESS'],
    [500, 'REGISTRY_INVALID'],
  ])('status %i ends the command, because nothing is known', async (status, code) => {
    server.instead = (_request, response) => (response.writeHead(status).end(), true);
    expect(await statesFrom(server.url)).toContain(code);
  });

  test('receipts are not sent where a redirect leads', async () => {
    const other = await PutServer.open();
    server.instead = ({ url }, response) => (response.writeHead(307, { location: `${other.url}${url}` }).end(), true);
    const sent = await send({ ...times, https: { url: server.url } }, 'node-1');
    expect(sent.outcome).toMatchObject({ kind: 'failed', problem: { code: 'REGISTRY_INVALID' } });
    expect(other.seen).toEqual([]);
    other.close();
  });
});

test('the credentials of the config are sent to the server, and not to git by an argument', async () => {
  writeFileSync(at('token'), 'alice:s3cret\n', { mode: 0o600 });
  const authority = makeAuthority('test', new Date(Date.now() + 86_400_000));
  writeFileSync(at('ca.pem'), authority.certificate);
  const identity = authority.issue('server', new Date(Date.now() + 86_400_000));
  const git = await GitHttpServer.open(at('git'), { identity, password: 'alice:s3cret' });
  execFileSync('/usr/bin/git', ['init', '-q', '--bare', at('git/shop.git')]);
  execFileSync('/usr/bin/git', ['-C', at('git/shop.git'), 'config', 'http.receivepack', 'true']);
  say('node-1', 'confirmed');
  const push = { ...times, git: { url: `${git.url}/shop.git`, knownHosts: '/dev/null' }, caFile: at('ca.pem') };
  const refused = await send(push, 'node-1');
  expect(refused.outcome).toMatchObject({ kind: 'failed', problem: { code: 'REGISTRY_UNREACHABLE' } });
  const credentials = { file: at('token') };
  expect((await send({ ...push, credentials }, 'node-1')).outcome).toMatchObject({ kind: 'sent' });
  git.close();
  const server = await PutServer.open();
  server.instead = ({ headers }, response) =>
    headers.authorization !== `Basic ${Buffer.from('alice:s3cret').toString('base64')}` &&
    (response.writeHead(401).end(), true);
  const web = { ...times, https: { url: server.url } };
  expect((await send(web, 'node-1')).outcome).toMatchObject({ kind: 'failed', problem: { code: 'REGISTRY_ACCESS' } });
  expect((await send({ ...web, credentials }, 'node-1')).outcome).toMatchObject({ kind: 'sent' });
  server.close();
});

test('a store that is not there ends the command with the reason', async () => {
  expect(await statesFrom('http://127.0.0.1:9/shop')).toContain('REGISTRY_UNREACHABLE');
  expect(await statesFrom('git+http://127.0.0.1:9/shop.git')).toContain('REGISTRY_UNREACHABLE');
  expect(await statesFrom('ftp://127.0.0.1/shop')).toContain('RECEIPT_INVALID');
});

test('a folder and a store together, or neither, are refused', async () => {
  expect(await fleet('--from', at('store'))).toMatchObject({ status: 2 });
  expect(await sluice('fleet', '--allowed-receipts', allowed)).toMatchObject({ status: 2 });
  expect(await promote('--from', at('store'))).toMatchObject({ status: 2 });
});

test('a directory has no part of a file after a transfer', async () => {
  say('node-1', 'confirmed');
  await send({ ...times, dir: { path: at('plain') } }, 'node-1');
  expect(readdirSync(join(at('plain'), placeOf('node-1').folder))).toEqual(['node-1.tar.zst']);
});

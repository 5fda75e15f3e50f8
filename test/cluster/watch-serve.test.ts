// @module-tag test
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { readSourceStatus } from '../../packages/applier/src/fetch/status-file.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';
import { token } from './apiserver.fixture.ts';
import { makeAuthority } from './certificates.fixture.ts';
import { LeaseServer } from './lease.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { freePort, outputOf, type Started, startSluice, until } from './program.fixture.ts';

/** From the API server over `sluice watch --serve` and a node that follows it to what `sluiced` reads. */

const scene = new GateScene();
const authority = makeAuthority('the authority of the test', new Date('2099-01-01'));
let cluster: LiveCluster;
let leases: LeaseServer;
let dir: string;
const at = (name: string): string => join(dir, name);
const started: Started[] = [];
let stop: AbortController;
let running: Promise<void>;

beforeEach(async () => {
  cluster = await LiveCluster.start();
  leases = new LeaseServer();
  cluster.server.intercept = (path, request, response) =>
    leases.answer(path, request, response) || cluster.answer(path, request, response);
  dir = mkdtempSync(join(tmpdir(), 'sluice-watch-serve-'));
  scene.reset();
  rmSync(join(scene.scratch, 'fetched'), { recursive: true, force: true });
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
  cluster.put('nodes', node);
  const { certificate, key } = authority.issue('watch', new Date('2099-01-01'));
  for (const [name, text] of [
    ['tls.crt', certificate],
    ['tls.key', key],
    ['ca.pem', authority.certificate],
  ] as const)
    writeFileSync(at(name), text, { mode: 0o644 });
  [stop, running] = [new AbortController(), Promise.resolve()];
});
afterEach(async () => {
  stop.abort();
  await running;
  for (const one of started.splice(0)) await end(one);
  await cluster.server.close();
  rmSync(dir, { recursive: true });
});

async function end(watching: Started): Promise<void> {
  watching.kill('SIGTERM');
  await watching;
}

/** Options of a process with a directory of its own; nothing of it is shared. */
function argumentsOf(name: string, port: number): readonly string[] {
  mkdirSync(at(`${name}/releases`), { recursive: true });
  const args = ['watch', '-o', at(`${name}/rendered`), '--kubeconfig', cluster.server.kubeconfig({ token })];
  const releases = ['--push', `oci:${at(`${name}/releases`)}:production`, '--key', join(scene.scratch, 'alice')];
  const serve = ['--serve', `127.0.0.1:${port}`, '--tls-cert', at('tls.crt'), '--tls-key', at('tls.key')];
  return [...args, ...releases, ...serve];
}

function watch(name: string, port: number, ...more: readonly string[]) {
  const watching = startSluice([...argumentsOf(name, port), ...more], dir);
  started.push(watching);
  return { watching, said: outputOf(watching) };
}

/** A node that follows these servers, with an interval that is longer than any test. */
function follow(...ports: readonly number[]): Fetcher {
  const url = ports.map((port) => `https://127.0.0.1:${port}`);
  const https = { url, tag: 'production', events: true };
  const fetcher = new Fetcher(scene, { https, caFile: at('ca.pem'), intervalSeconds: 3600, secondsMax: 20 });
  running = fetcher.follow(stop.signal);
  return fetcher;
}

const serialOf = (fetcher: Fetcher): number => readSourceStatus(fetcher.directory)?.serial ?? 0;
const pushes = (said: () => string): number => said().split('pushed release ').length - 1;

/** The status and the body of an answer. */
const ask = (port: number, path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, ca: authority.certificate }, (response) => {
      let text = `${response.statusCode} `;
      response.on('data', (chunk: Buffer) => (text += String(chunk)));
      response.on('end', () => resolve(text));
    });
    request.on('error', reject);
  });

test('a change of the cluster is signed, served and told, and the node has it at once', async () => {
  const port = await freePort();
  const { said } = watch('one', port);
  const fetcher = follow(port);
  await until(() => serialOf(fetcher) === 1, 40_000);
  expect(await fetcher.taken()).toBe('serial 1');
  cluster.put('services', serviceOf('b', 2));
  await until(() => serialOf(fetcher) === 2);
  expect(await fetcher.taken()).toBe('serial 2');
  expect(said()).toMatch(
    /pushed release 2 of \S+ as oci:\S+\/one\/releases:production \(sha256:[0-9a-f]{64}\), signed\n/,
  );
}, 90_000);

test('a restart continues the serials, serves what is there, and makes no release of the same rules', async () => {
  const port = await freePort();
  const first = watch('one', port);
  const fetcher = follow(port);
  await until(() => serialOf(fetcher) === 1, 40_000);
  await end(first.watching);
  const second = watch('one', port);
  await until(() => second.said().includes('is up to date with'), 40_000);
  cluster.put('services', serviceOf('b', 2));
  await until(() => serialOf(fetcher) === 2, 40_000);
  expect(second.said()).not.toContain('pushed release 1 ');
  expect(await fetcher.taken()).toBe('serial 2');
}, 120_000);

test('of two processes with a Lease one serves; the other one refers to it, and takes over with greater serials', async () => {
  const [one, two] = [await freePort(), await freePort()];
  const first = watch('one', one, '--lease', 'sluice/watch');
  await until(() => pushes(first.said) === 1, 40_000);
  const second = watch('two', two, '--lease', 'sluice/watch');
  await until(
    async () => (await ask(two, '/index.json').catch(() => '')).endsWith(' holds Lease sluice/watch\n'),
    40_000,
  );
  expect(await ask(two, '/events')).toMatch(
    /^503 this process does not serve releases: \S+ holds Lease sluice\/watch\n$/,
  );
  const fetcher = follow(two, one);
  await until(() => serialOf(fetcher) === 1, 40_000);
  expect(leases.annotations('watch')).toEqual({ 'sluice.dev/last-serial': '1000' });

  await end(first.watching);
  // The rules are the same, but the second process cannot know that the first one's release was the newest.
  await until(() => serialOf(fetcher) === 1001, 40_000);
  cluster.put('services', serviceOf('b', 2));
  await until(() => serialOf(fetcher) === 1002);
  expect(await fetcher.taken()).toBe('serial 1002');

  const third = watch('one', one, '--lease', 'sluice/watch');
  await until(async () => / holds Lease /.test(await ask(one, '/index.json').catch(() => '')), 40_000);
  await end(second.watching);
  await until(() => serialOf(fetcher) === 2001, 40_000);
  expect(third.said()).toContain('pushed release 2001 ');
  expect(await fetcher.taken()).toBe('serial 2001');
}, 180_000);

test('200 Services that are deleted in one burst are few releases, and the node has what comes after them', async () => {
  const names = Array.from({ length: 200 }, (_one, n) => `s${n}`);
  for (const [n, name] of names.entries()) cluster.put('services', serviceOf(name, n + 2));
  const port = await freePort();
  const { said } = watch('one', port);
  const fetcher = follow(port);
  const services = (): readonly string[] => {
    const paths = listTree(join(fetcher.directory, 'release'));
    return [...new Set(paths.flatMap((path) => /services\/shop\/([^.]+)\./.exec(path)?.[1] ?? []))].toSorted();
  };
  await until(() => serialOf(fetcher) > 0 && services().length === 201, 60_000);
  const before = pushes(said);
  for (const name of names) cluster.remove('services', name);
  cluster.put('services', serviceOf('last', 250));
  await until(() => services().join() === 'a,last', 60_000);
  expect(await fetcher.taken()).toBe(`serial ${pushes(said)}`);
  expect(pushes(said) - before).toBeLessThan(10);
}, 150_000);

test('a disk that is full in the middle of a push: what is there is served, and the next release comes once there is space', async (context) => {
  const mounted = `mount -t tmpfs -o size=1m tmpfs ${at('one/releases')} && exec "$@"`;
  if (process.getuid?.() !== 0 || spawnSync('/usr/bin/unshare', ['-m', '/bin/true']).status !== 0)
    return context.skip('no mount namespace of its own: needs root');
  const port = await freePort();
  const within = ['/usr/bin/unshare', '-m', '/bin/sh', '-c', mounted, 'sh'];
  const watching = startSluice(argumentsOf('one', port), dir, within);
  started.push(watching);
  const said = outputOf(watching);
  const fetcher = follow(port);
  await until(() => serialOf(fetcher) === 1, 40_000);
  const disk = join(`/proc/${watching.pid}/root`, at('one/releases'));
  const filler = join(disk, 'filler');
  expect(() => writeFileSync(filler, Buffer.alloc(2 * 1024 * 1024))).toThrow('ENOSPC');
  // Some parts of the release fit.
  truncateSync(filler, statSync(filler).size - 12 * 1024);
  const served = await ask(port, '/index.json');
  cluster.put('services', serviceOf('b', 2));
  await until(() => /COMMIT: Cannot push a release to .*ENOSPC/.test(said()), 40_000);
  expect(await ask(port, '/index.json')).toBe(served);
  expect(await fetcher.said()).toBe('same');
  rmSync(filler);
  await until(() => serialOf(fetcher) === 2, 90_000);
  expect(await fetcher.taken()).toBe('serial 2');
  expect(readdirSync(disk, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.tmp'))).toEqual([]);
}, 240_000);

test.each([
  ['without a directory of releases', ['--push', 'oci://registry.example.com/sluice/shop:production']],
  ['without a key of TLS', ['--push', 'oci:releases:production', '--tls-cert', 'tls.crt']],
])(
  'is refused %s',
  async (_title, more) => {
    const args = ['watch', '-o', at('rendered'), '--kubeconfig', cluster.server.kubeconfig({ token })];
    const watching = startSluice([...args, '--serve', '127.0.0.1:1', ...more], dir);
    started.push(watching);
    const said = outputOf(watching);
    expect(await watching).toMatchObject({ exitCode: 2 });
    expect(said()).toContain('Cannot serve releases: --serve needs --tls-cert, --tls-key and a directory of releases');
  },
  60_000,
);

test('is refused where the address is taken, and ends', async () => {
  const port = Number(new URL(cluster.server.url).port);
  const { watching, said } = watch('one', port);
  expect(await watching).toMatchObject({ exitCode: 2 });
  expect(said()).toContain(`Cannot serve releases on 127.0.0.1:${port}: `);
}, 60_000);

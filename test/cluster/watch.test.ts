// @module-tag test
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serviceFile } from '@sluice/bundle';
import { atTier } from '@sluice/testing';
import { readInput } from '../../packages/renderer/src/commands/input/input.ts';
import { planTree } from '../../packages/renderer/src/emit/tree.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import type { ApiObject } from './apiserver.fixture.ts';
import { serviceCIDROf, serviceOf, slice } from './objects.fixture.ts';
import { outputOf, until } from './program.fixture.ts';
import {
  ask,
  cluster,
  dir,
  isThere,
  kubeconfig,
  out,
  port,
  startWatch,
  watchedCluster,
  watching,
  writeBelow,
} from './watched.fixture.ts';

watchedCluster();

/** Starts the program as a user does, and waits until the directory exists. */
async function watch(...more: readonly string[]): Promise<void> {
  void startWatch('-o', out, '--listen', `127.0.0.1:${port}`, ...more);
  await until(isThere);
}

const read = (path: string): string | undefined =>
  existsSync(join(out, path)) ? readFileSync(join(out, path), 'utf8') : undefined;
const rulesOf = (name: string): string | undefined => read(serviceFile('default', 'shop', name, 'iptables'));

/** Whether the directory equals, byte for byte, a fresh render of the cluster. */
async function isFresh(): Promise<boolean> {
  const { input } = await readInput({ fromCluster: true, kubeconfig: kubeconfig(), output: out });
  const plan = planTree(out, render(input).files);
  return 'write' in plan && plan.write.length + plan.remove.length === 0 && plan.complete.isThere;
}

const endpointsOf = (name: string, hosts: readonly number[]): ApiObject => ({
  ...slice,
  metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
  endpoints: hosts.map((host) => ({
    addresses: [`10.244.1.${host}`],
    conditions: { ready: true },
    nodeName: 'node-a',
  })),
});

test('changes at the API change the directory, and a signal ends it cleanly', async () => {
  await watch();
  expect(await isFresh()).toBe(true);
  cluster.put('services', serviceOf('b', 2));
  cluster.put('endpointslices', endpointsOf('b', [7, 8]));
  await until(() => rulesOf('b')?.includes('10.244.1.8:8080') ?? false);
  cluster.remove('services', 'a');
  await until(() => rulesOf('a') === undefined);
  await until(isFresh);
  watching?.kill('SIGTERM');
  expect(await watching).toMatchObject({ exitCode: 0 });
  expect(await isFresh()).toBe(true);
}, 60_000);

test('a new ServiceCIDR changes the service CIDRs of the bundle, and its removal restores them', async () => {
  cluster.put('servicecidrs', serviceCIDROf('kubernetes', '10.96.0.0/16'));
  await watch();
  expect(read('cluster.yaml')).toContain('serviceCIDRs:\n  - 10.96.0.0/16\n');
  cluster.put('servicecidrs', serviceCIDROf('more', '10.200.0.0/24'));
  await until(() => read('cluster.yaml')?.includes('10.200.0.0/24') ?? false);
  await until(isFresh);
  cluster.remove('servicecidrs', 'more', '');
  await until(() => !(read('cluster.yaml') ?? '10.200').includes('10.200'));
  await until(isFresh);
}, 60_000);

test('keeps the last directory while the API is unreachable, with an alarm that clears', async () => {
  await watch();
  expect(await ask('/healthz')).toEqual({ status: 200, text: 'ok\n' });
  const before = rulesOf('a');
  cluster.server.intercept = (_path, request) => (request.socket.destroy(), true);
  cluster.drop();
  await until(async () => (await ask('/metrics')).text.includes('\nsluice_watch_api_away 1\n'));
  expect((await ask('/livez')).status).toBe(200);
  expect(rulesOf('a')).toBe(before);
  cluster.put('services', serviceOf('a', 9));
  cluster.server.intercept = (path, request, response) => cluster.answer(path, request, response);
  await until(() => rulesOf('a')?.includes('10.96.0.9') ?? false, 40_000);
  await until(async () => (await ask('/metrics')).text.includes('\nsluice_watch_api_away 0\n'), 40_000);
  expect((await ask('/healthz')).status).toBe(200);
}, 90_000);

test('a bad Service keeps its last good rules and gets an Event; the rest is updated', async () => {
  const events: ApiObject[] = [];
  cluster.onPost = (path, body) => (path.endsWith('/events') ? (events.push(body), 201) : 404);
  await watch('--events');
  const before = rulesOf('a');
  cluster.put('services', {
    ...serviceOf('a', 1),
    spec: { ...(serviceOf('a', 1)['spec'] as ApiObject), sessionAffinity: 'Maybe' },
  });
  cluster.put('services', serviceOf('b', 2));
  await until(() => rulesOf('b') !== undefined);
  await until(() => read('quarantine.yaml')?.includes('Service shop/a') ?? false);
  expect(rulesOf('a')).toBe(before);
  await until(async () => (await ask('/metrics')).text.includes('sluice_watch_quarantined 1') && events.length === 1);
  expect(events).toMatchObject([
    { reason: 'Quarantined', type: 'Warning', involvedObject: { kind: 'Service', name: 'a', uid: 'u' } },
  ]);
  cluster.put('services', serviceOf('a', 5));
  await until(() => read('quarantine.yaml') === undefined && events.length === 2);
  expect(events[1]).toMatchObject({ reason: 'Released' });
  expect(await isFresh()).toBe(true);
}, 60_000);

test('EndpointSlices without a Service are reported once and change nothing', async () => {
  const loose = (name: string): ApiObject => ({ ...slice, metadata: { name, namespace: 'shop' } });
  await watch();
  const text = outputOf(watching!);
  cluster.put('endpointslices', loose('loose'));
  await until(() => text().includes('EndpointSlice shop/loose: '));
  cluster.put('endpointslices', {
    ...loose('empty'),
    metadata: { name: 'empty', namespace: 'shop', labels: { 'kubernetes.io/service-name': '' } },
  });
  cluster.put('services', serviceOf('b', 2));
  await until(() => rulesOf('b') !== undefined && text().includes('EndpointSlice shop/empty: '));
  expect(text().match(/EndpointSlice shop\/loose: .* code=SLICE_WITHOUT_SERVICE/g)).toHaveLength(1);
  expect(text()).not.toContain('quarantine: ');
  expect(read('quarantine.yaml')).toBe(undefined);
  expect(await isFresh()).toBe(true);
}, 60_000);

test('endpoints on unknown nodes write no files, and the rest is updated', async () => {
  await watch();
  const endpoints = [0, 1].map((n) => ({ addresses: [`10.244.9.${n + 1}`], nodeName: `made-up-${n}` }));
  cluster.put('endpointslices', {
    ...slice,
    metadata: { ...(slice['metadata'] as ApiObject), name: 'a-2' },
    endpoints,
  });
  await until(() => rulesOf('a')?.includes('10.244.9.1') ?? false);
  expect(readdirSync(join(out, 'nodes'))).toEqual(['node-a']);
  expect(await isFresh()).toBe(true);
});

describe('churn', () => {
  const seconds = atTier({ quick: 5, all: 60, soak: 600 });
  const perSecond = 100;
  const services = 200;

  test(
    `${perSecond} endpoint changes a second for ${seconds} s: none is lost, memory is flat, the directory equals a fresh render`,
    async () => {
      for (let n = 0; n < services; n++) {
        cluster.put('services', serviceOf(`s${n}`, (n % 250) + 3));
        cluster.put('services', {
          ...serviceOf(`s${n}`, 0),
          spec: {
            ...(serviceOf('x', 0)['spec'] as ApiObject),
            clusterIP: `10.97.0.${n}`,
            clusterIPs: [`10.97.0.${n}`],
          },
        });
        cluster.put('endpointslices', endpointsOf(`s${n}`, [1, 2]));
      }
      await watch();
      const started = Date.now();
      let early = 0;
      for (let change = 0; Date.now() - started < seconds * 1_000; change++) {
        cluster.put('endpointslices', endpointsOf(`s${(change * 7) % services}`, [1, (change % 200) + 2]));
        if (change % 250 === 100) cluster.drop(change % 500 === 100 ? 'end' : 'destroy');
        if (change % 600 === 300) cluster.compact();
        if (change === perSecond * Math.ceil(seconds / 5)) early = residentMegabytes();
        await new Promise((resolve) =>
          setTimeout(resolve, Math.max(0, started + ((change + 1) * 1_000) / perSecond - Date.now())),
        );
      }
      cluster.put('services', serviceOf('last', 2));
      await until(() => rulesOf('last') !== undefined, 30_000);
      await until(isFresh, 30_000);
      expect(residentMegabytes()).toBeLessThan(early * 1.5 + 60);
      const { text } = await ask('/metrics');
      expect(text).toContain('sluice_watch_failures_total 0');
      expect(text).toContain('sluice_watch_pending_changes 0');
    },
    (seconds + 120) * 1_000,
  );

  function residentMegabytes(): number {
    const status = readFileSync(`/proc/${watching?.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  }
});

describe('commits', () => {
  const git = (cwd: string, ...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      cwd,
      encoding: 'utf8',
      stdio: 'pipe',
    });

  test('each change is one commit that names its Services, rebased onto foreign pushes', async () => {
    const origin = join(dir, 'origin.git');
    git(dir, 'init', '--quiet', '--bare', '--initial-branch=main', origin);
    const work = join(dir, 'work');
    git(dir, 'clone', '--quiet', origin, work);
    for (const [key, value] of [
      ['user.name', 'watch'],
      ['user.email', 'watch@example.com'],
    ])
      git(work, 'config', key as string, value as string);
    writeFileSync(join(work, 'README'), 'a\n');
    git(work, 'checkout', '--quiet', '-b', 'main');
    git(work, 'add', 'README');
    git(work, 'commit', '--quiet', '-m', 'start');
    git(work, 'push', '--quiet', '-u', 'origin', 'main');
    writeBelow(work);
    await watch('--commit', '--push');
    const log = (): string[] => git(origin, 'log', '--format=%s', 'main').trim().split('\n');
    await until(() => log().length === 2);

    const other = join(dir, 'other');
    git(dir, 'clone', '--quiet', origin, other);
    writeFileSync(join(other, 'README'), 'b\n');
    git(other, 'commit', '--quiet', '-am', 'of another');
    git(other, 'push', '--quiet');
    cluster.put('services', serviceOf('b', 2));
    cluster.put('services', serviceOf('c', 3));
    // On a busy machine the commits of the two may be apart.
    await until(() => log()[0]?.includes('shop/c') === true);
    const own = log().slice(0, -3).toReversed();
    expect([
      ['watch: Service shop/b, Service shop/c'],
      ['watch: Service shop/b', 'watch: Service shop/c'],
    ]).toContainEqual(own);
    expect(log().slice(-3)).toEqual(['of another', 'sluice: initial render of 1 Service for 1 node', 'start']);
    expect(git(origin, 'show', 'main:README')).toBe('b\n');
    expect(git(work, 'status', '--porcelain')).toBe('');
    expect(await isFresh()).toBe(true);

    // A conflict: one commit removes the file that the other one changed.
    git(other, 'pull', '--quiet', '--rebase');
    writeFileSync(join(other, 'rendered', serviceFile('default', 'shop', 'b', 'iptables')), 'by hand\n');
    writeFileSync(join(other, 'README'), 'c\n');
    git(other, 'commit', '--quiet', '-am', 'by hand');
    git(other, 'push', '--quiet');
    cluster.remove('services', 'b');
    // An earlier scan may restore the file that was edited by hand: a correct commit of its own.
    const gone = serviceFile('default', 'shop', 'b', 'iptables');
    await until(() => !git(origin, 'ls-tree', '-r', '--name-only', 'main').includes(gone));
    expect(log()[0]).toBe('watch: Service shop/b');
    expect(log()).toContain('by hand');
    expect(git(origin, 'show', 'main:README')).toBe('c\n');
    expect(git(work, 'status', '--porcelain')).toBe('');
    expect(await isFresh()).toBe(true);
  }, 60_000);
});

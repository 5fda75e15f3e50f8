// `sluice watch` on a large cluster: from a change at the API to the complete directory, its memory and its idle load.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, watch as watchFile } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { completeFile } from '@sluice/bundle';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { clusterList, type ClusterShape } from './data.ts';
import { cpuSeconds, percentile, report, residentMegabytes } from './measure.ts';

const resources: Readonly<Record<string, string>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
};
const changes = 60;
const settleSeconds = 10;
const idleSeconds = 10;
const startMs = 120_000;
const changeMs = 30_000;

/** @param sluice the program to measure */
export async function watchBench(sluice: string, shape: ClusterShape): Promise<void> {
  const api = await LiveCluster.start();
  const { items } = clusterList(shape);
  const of = (kind: string): ApiObject[] => items.filter((item) => item['kind'] === kind);
  for (const [kind, resource] of Object.entries(resources)) api.load(resource, of(kind));
  const dir = mkdtempSync(join(tmpdir(), 'sluice-watch-bench-'));
  const out = join(dir, 'rendered');
  const kubeconfig = api.server.kubeconfig({ token });
  const started = performance.now();
  const child = spawn(sluice, ['watch', '-o', out, '--kubeconfig', kubeconfig], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    const pid = child.pid ?? 0;
    await until(() => sealOf(out) !== '', startMs);
    const first = performance.now() - started;
    const latencies = await measureChanges(api, of('EndpointSlice'), out);
    // The last change is followed by work of a second, such as collecting garbage.
    await sleep(settleSeconds * 1_000);
    const before = cpuSeconds(pid);
    await sleep(idleSeconds * 1_000);
    const idle = ((cpuSeconds(pid) - before) / idleSeconds) * 100;
    const title = `sluice watch, ${shape.services} Services with ${shape.services * shape.endpointsPerService} endpoints`;
    report(
      `${title}: from the API's event to the complete directory`,
      `p50 ${percentile(latencies, 0.5)}, p99 ${percentile(latencies, 0.99)}`,
      'p99 under 1 s to the kernel, which comes below',
      `${latencies.length} changes, one at a time; first directory after ${(first / 1000).toFixed(1)} s`,
    );
    report(
      `${title}: memory`,
      `${residentMegabytes(pid).toFixed(0)} MB`,
      'under 600 MB',
      'resident, after the changes',
    );
    report(`${title}: processor when idle`, `${idle.toFixed(2)} %`, 'under 1 %', `over ${idleSeconds} s`);
  } finally {
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
    await api.server.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Milliseconds, sorted. */
async function measureChanges(api: LiveCluster, slices: readonly ApiObject[], out: string): Promise<number[]> {
  const latencies: number[] = [];
  for (let change = 0; change < changes; change++) {
    const slice = slices[(change * 97) % slices.length] as ApiObject;
    const [head, ...others] = slice['endpoints'] as ApiObject[];
    const seal = sealOf(out);
    const begun = performance.now();
    api.put('endpointslices', { ...slice, endpoints: [{ ...head, addresses: [`10.200.${change}.1`] }, ...others] });
    await changed(out, seal);
    latencies.push(performance.now() - begun);
    // So far apart that the back-off does not count.
    await sleep(300);
  }
  return latencies.toSorted((a, b) => a - b);
}

/** Waits until the directory is complete with another digest. */
async function changed(out: string, seal: string): Promise<void> {
  const isNew = (): boolean => !['', seal].includes(sealOf(out));
  let wake = (): void => {};
  const watcher = watchFile(out, () => wake());
  try {
    const end = performance.now() + changeMs;
    while (!isNew()) {
      if (performance.now() > end) throw new Error('a change did not reach the directory');
      await Promise.race([new Promise<void>((resolve) => (wake = resolve)), sleep(20)]);
    }
  } finally {
    watcher.close();
  }
}

async function until(condition: () => boolean, timeoutMs: number): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error('timed out');
    await sleep(50);
  }
}

function sealOf(out: string): string {
  try {
    return readFileSync(join(out, completeFile), 'utf8');
  } catch {
    return '';
  }
}

// @module-tag all
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { completeFile } from '@sluice/bundle';
import { type ExecaError, execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { node, serviceOf, slice } from '../cluster/objects.fixture.ts';
import { freePort, type Started, startSluice, until } from '../cluster/program.fixture.ts';
import { needPrometheus, type Place, Prometheus } from './prometheus.ts';
import { watchFaults } from './watch-faults.ts';

/** Debian's Prometheus beside a real `sluice watch` on loopback. */

let cluster: LiveCluster;
let directory: string;
let process: Started | undefined;
let stop: AbortController;
const programs: Promise<unknown>[] = [];

beforeEach(async () => {
  stop = new AbortController();
  cluster = await LiveCluster.start();
  directory = mkdtempSync(join(tmpdir(), 'sluice-monitored-'));
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
  cluster.put('nodes', node);
});
afterEach(async () => {
  stop.abort();
  process?.kill('SIGKILL');
  await Promise.all([process, ...programs.splice(0)]);
  process = undefined;
  await cluster.server.close();
  rmSync(directory, { recursive: true });
});

const place = (): Place => ({
  directory,
  run: async ([file = '', ...args]) => (await execa(file, args)).stdout,
  start: ([file = '', ...args]) =>
    programs.push(
      execa(file, args, { cancelSignal: stop.signal, stdio: 'ignore' }).catch((error: ExecaError) => error.message),
    ),
});

test.for(watchFaults.map((fault) => [fault.alert, fault.title, fault] as const))(
  '%s fires, and no other alert does: %s',
  { timeout: 180_000 },
  async ([alert, , { options = [], prepare, make }], context) => {
    const program = needPrometheus(context, 'prometheus');
    prepare?.(cluster);
    const out = join(directory, 'rendered');
    const target = `127.0.0.1:${await freePort()}`;
    const kubeconfig = cluster.server.kubeconfig({ token });
    process = startSluice(['watch', '-o', out, '--kubeconfig', kubeconfig, '--listen', target, ...options], directory);
    if (prepare === undefined) await until(() => existsSync(join(out, completeFile)), 40_000);
    const prometheus = Prometheus.start(program, place(), { 'sluice-watch': target }, `127.0.0.1:${await freePort()}`);
    await until(() => prometheus.isReady(), 40_000);
    // A fault from the start has no time before it.
    const before = prepare === undefined ? await sleep(5_000).then(() => prometheus.fired()) : [];
    expect(before).toEqual([]);
    await make({ cluster, process, out });
    await until(async () => (await prometheus.fired()).includes(alert), 90_000);
    await sleep(5_000);
    expect(await prometheus.fired()).toEqual([alert]);
  },
);

// One `sluice watch --serve` and many nodes that follow it: from the API's event to the directory of each node, beside nodes that ask at an
// interval. No machine has the memory for a process each: the real loops of the fetch process, in few processes, and without signatures, for
// which each node would start ssh-keygen. All of them share the processors of the server.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { freePort } from '../cluster/port.fixture.ts';
import { clusterList } from './data.ts';
import { cpuSeconds, percentile, report, residentMegabytes } from './measure.ts';

/** What a node says when an event has come, and when it has placed a release. Times are of the one clock of the machine. */
export interface FollowerSays {
  readonly node: string;
  readonly what: 'event' | 'placed';
  readonly atMs: number;
  /** That it has fetched, ever. */
  readonly bytes: number;
}

const processes = 4;
const changes = 10;
const patienceMs = 180_000;
const nowMs = (): number => performance.timeOrigin + performance.now();

/** @param sluice the program to measure */
export async function serveBench(sluice: string, services: number, nodes: number): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-serve-bench-'));
  const api = await LiveCluster.start();
  const { items } = clusterList({ services, endpointsPerService: 10, nodes });
  const of = (kind: string): ApiObject[] => items.filter((item) => item['kind'] === kind);
  for (const [kind, resource] of [
    ['Service', 'services'],
    ['EndpointSlice', 'endpointslices'],
    ['Node', 'nodes'],
  ] as const)
    api.load(resource, of(kind));
  const port = await freePort();
  const child = spawn(sluice, ['watch', ...argumentsOf(scratch, api.server.kubeconfig({ token }), port)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    await listens(port, child);
    const title = `sluice watch --serve, ${services} Services, ${nodes} nodes in ${processes} processes`;
    for (const intervalSeconds of [0, 5]) {
      const how = intervalSeconds === 0 ? 'following' : `asking every ${intervalSeconds} s`;
      const run = await measure({ scratch, port, nodes, intervalSeconds }, api, of('EndpointSlice'), child.pid ?? 0);
      const of99 = (times: readonly number[]): string =>
        `p50 ${percentile(times, 0.5)}, p99 ${percentile(times, 0.99)}`;
      const told = intervalSeconds === 0 ? `; the event at a node ${of99(run.told)}` : '';
      report(`${title}, ${how}: API to directory`, of99(run.placed), 'a second', `${changes} changes${told}`);
      report(
        `${title}, ${how}: cost`,
        `${run.megabytes.toFixed(0)} MB resident, ${(run.cpuSeconds / changes).toFixed(2)} s of a processor a change`,
        'no error',
        `${(run.bytes / changes / nodes / 1000).toFixed(1)} kB a node and change, ${run.megabytesBefore.toFixed(0)} MB before the nodes`,
      );
    }
  } finally {
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
    await api.server.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

function argumentsOf(scratch: string, kubeconfig: string, port: number): readonly string[] {
  const authority = makeAuthority('bench', new Date('2099-01-01'));
  const { certificate, key } = authority.issue('watch', new Date('2099-01-01'));
  for (const [name, text] of [
    ['ca.pem', authority.certificate],
    ['tls.crt', certificate],
    ['tls.key', key],
  ] as const)
    writeFileSync(join(scratch, name), text);
  const config =
    'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: bench\nprofiles: [{ name: default, mode: nftables }]\n';
  writeFileSync(join(scratch, 'sluice.yaml'), config);
  const files = ['-o', join(scratch, 'rendered'), '-c', join(scratch, 'sluice.yaml'), '--kubeconfig', kubeconfig];
  const serve = [
    '--serve',
    `127.0.0.1:${port}`,
    '--tls-cert',
    join(scratch, 'tls.crt'),
    '--tls-key',
    join(scratch, 'tls.key'),
  ];
  return [...files, '--push', `oci:${join(scratch, 'releases')}:production`, ...serve, '--log-level', 'warning'];
}

/** Waits until the server listens. */
async function listens(port: number, child: ChildProcess): Promise<void> {
  for (const endMs = performance.now() + patienceMs; performance.now() < endMs; await sleep(200)) {
    if (child.exitCode !== null) throw new Error(`sluice watch ended with ${child.exitCode}`);
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    if (isOpen) return;
  }
  throw new Error('sluice watch does not listen');
}

interface Scene {
  readonly scratch: string;
  readonly port: number;
  readonly nodes: number;
  /** 0: they follow. */
  readonly intervalSeconds: number;
}

async function measure(scene: Scene, api: LiveCluster, slices: readonly ApiObject[], pid: number) {
  const megabytesBefore = residentMegabytes(pid);
  const directory = join(scene.scratch, `nodes-${scene.intervalSeconds}`);
  mkdirSync(directory);
  const loops: ChildProcess[] = [];
  const said: FollowerSays[] = [];
  try {
    for (let own = 0; own < processes; own++) {
      const args = [directory, scene.scratch, scene.port, scene.nodes, own, processes, scene.intervalSeconds].map(
        String,
      );
      const loop = fork(join(import.meta.dirname, 'serve-followers.ts'), args);
      loop.on('message', (message: FollowerSays) => said.push(message));
      loops.push(loop);
    }
    const placed = (): readonly FollowerSays[] => said.filter(({ what }) => what === 'placed');
    const all = async (): Promise<void> => {
      const endMs = performance.now() + patienceMs;
      while (new Set(placed().map(({ node }) => node)).size < scene.nodes) {
        if (performance.now() > endMs)
          throw new Error(`only ${placed().length} of ${scene.nodes} nodes have the release`);
        await sleep(20);
      }
    };
    await all();
    // All of them follow, and the first events of their streams are answered.
    await sleep(5_000);
    const [times, told]: [number[], number[]] = [[], []];
    const cpuBefore = cpuSeconds(pid);
    const bytes = (): number =>
      [...new Map(said.map((one) => [one.node, one.bytes])).values()].reduce((sum, one) => sum + one, 0);
    const bytesBefore = bytes();
    for (let change = 0; change < changes; change++) {
      const kept = [...new Map(said.map((one) => [one.node, { ...one, what: 'event' as const, atMs: 0 }])).values()];
      said.splice(0, said.length, ...kept);
      const slice = slices[(change * 97) % slices.length] as ApiObject;
      const [head, ...others] = slice['endpoints'] as ApiObject[];
      const begunMs = nowMs();
      const address = `10.200.${scene.intervalSeconds}.${change + 1}`;
      api.put('endpointslices', { ...slice, endpoints: [{ ...head, addresses: [address] }, ...others] });
      await all();
      for (const { what, atMs } of said)
        if (what === 'placed') times.push(atMs - begunMs);
        else if (atMs > 0) told.push(atMs - begunMs);
      await sleep(1_000);
    }
    return {
      placed: times.toSorted((a, b) => a - b),
      told: told.toSorted((a, b) => a - b),
      megabytes: residentMegabytes(pid),
      megabytesBefore,
      cpuSeconds: cpuSeconds(pid) - cpuBefore,
      bytes: bytes() - bytesBefore,
    };
  } finally {
    for (const loop of loops) loop.kill('SIGKILL');
  }
}

if (import.meta.main)
  await serveBench(
    join(import.meta.dirname, '../../bin/sluice'),
    Number(process.argv[2] ?? 1_000),
    Number(process.argv[3] ?? 500),
  );

// One `sluice watch --serve` and many nodes that follow it: from the API's event to the directory of each node, beside nodes that ask at an
// interval. No machine has the memory for a process each: the real loops of the fetch process, in few processes, and without signatures, for
// which each node would start ssh-keygen. All of them share the processors of the server, which has them first. One node makes a first fetch;
// the others begin with its files.
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
import { cpuSeconds, highWaterMark, percentile, report, residentMegabytes } from './measure.ts';

/** What a node says when an event has come, and when it has placed a release. Times are of the one clock of the machine. */
export interface FollowerSays {
  readonly node: string;
  readonly what: 'event' | 'placed';
  readonly atMs: number;
  /** That it has fetched, ever. */
  readonly bytes: number;
  /** Of all nodes of its process, ever. */
  readonly requests: number;
}

const processes = 4;
const changes = 10;
/** For one change, or one first load, of all nodes: two seconds of a processor each are far more than a node needs. */
const patienceMs = (nodes: number): number => 180_000 + nodes * 2_000;
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
      const each = (what: 'event' | 'placed'): string =>
        spread(run.changes.flatMap((change) => [...change[what].values()]));
      const all = spread(run.changes.map(({ placed }) => Math.max(...placed.values())));
      report(
        `${title}, ${how}: from the API`,
        `to the directory of a node ${each('placed')}; of all ${nodes} ${all}`,
        'a second',
        intervalSeconds === 0 ? `to the event at a node ${each('event')}` : 'no events',
      );
      const perNode = (total: number, digits: number): string => (total / changes / nodes).toFixed(digits);
      report(
        `${title}, ${how}: cost of a change`,
        `the server ${(run.serverSeconds / changes).toFixed(2)} s of a processor, ${run.megabytes.toFixed(0)} MB resident, at most ${(highWaterMark(child.pid) / 1024).toFixed(0)}`,
        'no error',
        `a node ${perNode(run.nodeSeconds, 3)} s of a processor, ${perNode(run.requests, 1)} requests, ${perNode(run.bytes / 1000, 1)} kB; the server before the nodes ${run.megabytesBefore.toFixed(0)} MB`,
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
  for (const endMs = performance.now() + patienceMs(0); performance.now() < endMs; await sleep(200)) {
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

/** Node → milliseconds since the change. */
interface Change {
  readonly event: Map<string, number>;
  readonly placed: Map<string, number>;
}

async function measure(scene: Scene, api: LiveCluster, slices: readonly ApiObject[], pid: number) {
  const { intervalSeconds, nodes, scratch } = scene;
  const megabytesBefore = residentMegabytes(pid);
  const first = new Loops(scene, join(scratch, `first-${intervalSeconds}`), { nodes: 1, processes: 1 });
  await first.all(1).finally(() => first.end());
  const seed = join(first.directory, 'node-0000');
  const loops = new Loops(scene, join(scratch, `nodes-${intervalSeconds}`), { nodes, processes, seed });
  try {
    await loops.all(nodes);
    // All of them follow, and the first events of their streams are answered.
    await sleep(5_000);
    const [serverBefore, before] = [cpuSeconds(pid), loops.cost()];
    const measured: Change[] = [];
    for (let change = 0; change < changes; change++) {
      const slice = slices[(change * 97) % slices.length] as ApiObject;
      const [head, ...others] = slice['endpoints'] as ApiObject[];
      const address = `10.200.${intervalSeconds}.${change + 1}`;
      loops.begin();
      api.put('endpointslices', { ...slice, endpoints: [{ ...head, addresses: [address] }, ...others] });
      measured.push(await loops.all(nodes));
      await sleep(1_000);
    }
    const after = loops.cost();
    return {
      changes: measured,
      megabytesBefore,
      megabytes: residentMegabytes(pid),
      serverSeconds: cpuSeconds(pid) - serverBefore,
      nodeSeconds: after.seconds - before.seconds,
      bytes: after.bytes - before.bytes,
      requests: after.requests - before.requests,
    };
  } finally {
    loops.end();
  }
}

/** The processes of nodes, and what their nodes said. */
class Loops {
  readonly directory: string;
  readonly #processes: ChildProcess[] = [];
  #begunMs = nowMs();
  #change: Change = { event: new Map(), placed: new Map() };
  readonly #bytes = new Map<string, number>();
  readonly #requests = new Map<ChildProcess, number>();

  constructor(
    { scratch, port, intervalSeconds }: Scene,
    directory: string,
    {
      nodes,
      processes: count,
      seed = '',
    }: { readonly nodes: number; readonly processes: number; readonly seed?: string },
  ) {
    this.directory = directory;
    mkdirSync(directory);
    for (let own = 0; own < count; own++) {
      const args = [directory, scratch, port, nodes, own, count, intervalSeconds, seed].map(String);
      const loop = fork(join(import.meta.dirname, 'serve-followers.ts'), args);
      loop.on('message', ({ node, what, atMs, bytes, requests }: FollowerSays) => {
        if (!this.#change[what].has(node)) this.#change[what].set(node, atMs - this.#begunMs);
        this.#bytes.set(node, bytes);
        this.#requests.set(loop, requests);
      });
      this.#processes.push(loop);
    }
  }

  begin(): void {
    this.#begunMs = nowMs();
    this.#change = { event: new Map(), placed: new Map() };
  }

  /** Waits until all nodes have placed a release since `begin`. */
  async all(nodes: number): Promise<Change> {
    const { placed } = this.#change;
    for (const endMs = performance.now() + patienceMs(nodes); placed.size < nodes; await sleep(20))
      if (performance.now() > endMs) throw new Error(`only ${placed.size} of ${nodes} nodes have the release`);
    return this.#change;
  }

  cost(): { readonly seconds: number; readonly bytes: number; readonly requests: number } {
    const sum = (values: Iterable<number>): number => [...values].reduce((total, one) => total + one, 0);
    return {
      seconds: sum(this.#processes.map(({ pid }) => cpuSeconds(pid ?? 0))),
      bytes: sum(this.#bytes.values()),
      requests: sum(this.#requests.values()),
    };
  }

  end(): void {
    for (const loop of this.#processes) loop.kill('SIGKILL');
  }
}

function spread(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  return `p50 ${percentile(sorted, 0.5)}, p99 ${percentile(sorted, 0.99)}, most ${percentile(sorted, 1)}`;
}

if (import.meta.main)
  await serveBench(
    join(import.meta.dirname, '../../bin/sluice'),
    Number(process.argv[2] ?? 1_000),
    Number(process.argv[3] ?? 500),
  );

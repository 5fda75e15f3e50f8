// Services that come and go on a node with its own watch: `node test/bench/churn.ts [MODE [SECONDS [A_SECOND [FOLDER …]]]]`, each folder with the
// programs of `./dev build`, in turns. Prints what both programs and their tools take of a processor, and when a new Service answers.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { allocator } from './allocator.ts';
import { mustBeInNamespace } from './in-namespace.ts';

const [mode = 'nftables', seconds = '30', aSecond = '5', ...folders] = process.argv.slice(2);
const endpoint = '10.244.0.1';

const service = (name: string, address: string): ApiObject => ({
  metadata: { name, namespace: 'shop' },
  spec: { clusterIP: address, clusterIPs: [address], ports: [{ port: 80, protocol: 'TCP' }] },
});
const slice = (name: string): ApiObject => ({
  metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
  addressType: 'IPv4',
  endpoints: [{ addresses: [endpoint], conditions: { ready: true }, nodeName: 'node-a' }],
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
});

/** Whether a connection is taken. */
const answers = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: address, port: 80, timeout: 150 });
    const ends = (is: boolean): void => (socket.destroy(), resolve(is));
    socket
      .once('connect', () => ends(true))
      .once('timeout', () => ends(false))
      .once('error', () => ends(false));
  });

async function served(address: string): Promise<number> {
  const startMs = performance.now();
  while (!(await answers(address))) {
    if (performance.now() - startMs > 60_000) throw new Error(`${address} does not answer`);
    await sleep(5);
  }
  return performance.now() - startMs;
}

/** Milliseconds of a processor: of a process, and of all that it started. */
function used(pid: number): readonly [own: number, tools: number] {
  const fields = (of: string): readonly string[] =>
    readFileSync(`/proc/${of}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
  const ticks = (of: string, from: number, to: number): number =>
    fields(of)
      .slice(from, to)
      .reduce((sum, one) => sum + Number(one) * 10, 0);
  let tools = ticks(String(pid), 13, 15);
  for (const one of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      if (fields(one)[1] === String(pid)) tools += ticks(one, 11, 15);
    } catch {
      // It has ended.
    }
  return [ticks(String(pid), 11, 13), tools];
}

const countIn = (text: string, name: RegExp): number =>
  [...text.matchAll(new RegExp(`^${name.source} (\\d+)`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0);

interface Node {
  readonly api: LiveCluster;
  /** `sluice watch` and `sluiced`. */
  readonly programs: readonly ChildProcess[];
}

/** 30 Services, and both programs from a folder. */
async function startNode(folder: string, dir: string): Promise<Node> {
  for (const args of ['link set lo up', `addr add ${endpoint}/32 dev lo`, 'route add 10.96.0.0/12 dev lo'])
    execFileSync('ip', args.split(' '));
  createServer((socket) => socket.on('error', () => {}).end()).listen(8080, '0.0.0.0');
  const api = await LiveCluster.start();
  api.put('nodes', {
    metadata: { name: 'node-a', labels: {} },
    spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'] },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }], capacity: { cpu: '2' } },
  });
  for (let n = 1; n <= 30; n++) {
    api.put('services', service(`steady-${n}`, `10.96.0.${n}`));
    api.put('endpointslices', slice(`steady-${n}`));
  }
  mkdirSync(join(dir, 'state'), { mode: 0o700 });
  const write = (name: string, config: object): string => {
    writeFileSync(join(dir, name), JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', ...config }));
    return join(dir, name);
  };
  const profiles = [{ name: 'default', mode, clusterCIDR: '10.244.0.0/16', conntrack: { maxPerCore: 0 } }];
  const cluster = write('sluice.yaml', { kind: 'SluiceConfig', serviceCIDRs: ['10.96.0.0/12'], profiles });
  const node = write('sluiced.yaml', {
    kind: 'SluicedConfig',
    node: 'node-a',
    bundle: join(dir, 'rendered'),
    state: join(dir, 'state'),
    backend: 'nft',
    signatures: { policy: 'none' },
    removals: { holdSeconds: 0 },
    listen: '127.0.0.1:9001',
  });
  const env = { ...process.env, ...allocator, RUNTIME_DIRECTORY: '/run' };
  const start = (...argv: readonly string[]) => spawn(process.execPath, argv, { stdio: 'ignore', env });
  const watch = ['watch', '--node', 'node-a', '-o', join(dir, 'rendered'), '-c', cluster, '--listen', '127.0.0.1:9002'];
  const programs = [
    start(join(folder, 'sluice.mjs'), ...watch, '--kubeconfig', api.server.kubeconfig({ token })),
    start(join(folder, 'sluiced.mjs'), 'run', '-c', node),
  ];
  await served('10.96.0.30');
  return { api, programs };
}

let next = 256;

/** A Service comes with its slice, and goes after two seconds. */
async function live(api: LiveCluster, times: number[]): Promise<void> {
  const [name, address] = [`churn-${next}`, `10.96.${next >> 8}.${next & 255}`];
  next += 1;
  api.put('services', service(name, address));
  await sleep(4);
  api.put('endpointslices', slice(name));
  times.push(await served(address));
  await sleep(2_000);
  api.remove('services', name);
  await sleep(4);
  api.remove('endpointslices', `${name}-1`);
}

/** What the programs have used, and the releases and publications so far. */
async function look(programs: Node['programs']) {
  const told = await Promise.all(
    [9001, 9002].map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
  );
  const [watch = [0, 0], sluiced = [0, 0]] = programs.map(({ pid }) => used(pid ?? 0));
  return {
    watch: watch[0],
    sluiced: sluiced[0],
    tools: watch[1] + sluiced[1],
    releases: countIn(told[0] ?? '', /sluice_outcomes_total\S*/),
    publications: countIn(told[1] ?? '', /sluice_watch_publications_total/),
  };
}

async function inside(folder: string): Promise<void> {
  mustBeInNamespace();
  const dir = mkdtempSync(join(tmpdir(), 'sluice-churn-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const { api, programs } = await startNode(folder, dir);
  await sleep(4_000);
  const [lone, times]: [number[], number[]] = [[], []];
  for (let n = 0; n < 5; n++) await live(api, lone);
  await sleep(1_500);
  const before = await look(programs);
  const lives: Promise<void>[] = [];
  const startMs = performance.now();
  for (let n = 0; n < Number(seconds) * Number(aSecond); n++) {
    await sleep(Math.max(0, startMs + (n * 1_000) / Number(aSecond) - performance.now()));
    lives.push(live(api, times));
  }
  await Promise.all(lives);
  await sleep(1_500);
  const after = await look(programs);
  const spread = (all: readonly number[]): string => {
    const sorted = all.toSorted((a, b) => a - b);
    return [0.5, 0.99, 1]
      .map((share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN))
      .join(', ');
  };
  const cost = Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - before[name as keyof typeof before]]),
  );
  const result = { folder, mode, load: loadavg()[0], lone: spread(lone), served: spread(times), ...cost };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  process.exit(0);
}

const given = folders.length > 0 ? folders : [join(import.meta.dirname, '../../dist')];
for (const folder of given)
  if (!existsSync(join(folder, 'sluiced.mjs'))) throw new Error(`${folder} has no programs: ./dev build writes dist`);
if (process.env['CHURN_INSIDE']) await inside(process.env['CHURN_INSIDE']);
else
  for (const folder of given)
    execFileSync(
      '/usr/bin/unshare',
      [
        '-n',
        '-m',
        '-p',
        '--fork',
        '--kill-child',
        '--mount-proc',
        'sh',
        '-c',
        'mount -t tmpfs tmpfs /run && exec "$@"',
        'sh',
        process.execPath,
        import.meta.filename,
        mode,
        seconds,
        aSecond,
      ],
      { stdio: 'inherit', env: { ...process.env, CHURN_INSIDE: folder } },
    );

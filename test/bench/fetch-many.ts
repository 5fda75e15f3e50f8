// Many nodes that fetch from one registry behind one nginx as a cache, as a site has them. Not one process each, for which no machine has the
// memory: loops in few processes, with the sources of `sluiced fetch`, its cache of blobs and its intervals, and without signatures.
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pushRelease } from '../../packages/transport/src/content/push.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { DebianRegistry } from '../registry/debian.fixture.ts';
import { debianProgram } from '../servers/debian.ts';
import { cacheOf, nginxPackages, nginxPath, serveNginx } from '../servers/nginx.ts';
import { changedService, released, rendered } from './fetch.ts';
import { report } from './measure.ts';

/** What a process of loops says when each of its nodes has a release. */
export interface LoopsSay {
  readonly serial: number;
  readonly errors: readonly string[];
}

const processes = 5;
const idleSeconds = 30;

/** @param services of the release @param nodes how many fetch */
export async function fetchManyBench(services: number, nodes: number): Promise<void> {
  const [registry, nginx] = [await DebianRegistry.open(), await debianProgram(nginxPath, nginxPackages)];
  if (typeof registry === 'string') return void process.stdout.write(`many nodes: not measured: ${registry}\n`);
  if ('lack' in nginx) return void process.stdout.write(`many nodes: not measured: ${nginx.lack}\n`);
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-fetch-many-'));
  const log = join(scratch, 'requests');
  const cache = await serveNginx(nginx, { directives: cacheOf(`http://${registry.host}`), log });
  const loops: ChildProcess[] = [];
  try {
    const client = new RegistryClient({ registry: registry.host, repository: 'shop' }, { env: {} });
    let files = rendered('nftables', services, nodes);
    const push = async (serial: number): Promise<void> => {
      const { release, files: made } = released(files, serial, nodes);
      await pushRelease(client, release, made, 'production');
    };
    await push(1);
    for (let n = 0; n < processes; n++)
      loops.push(
        fork(join(import.meta.dirname, 'fetch-loops.ts'), [
          String(cache.port),
          scratch,
          String(nodes),
          String(n),
          String(processes),
        ]),
      );
    const first = await untilAll(loops, 1);
    const idle = await counted(log, () => sleep(idleSeconds * 1000).then(() => undefined));
    files = changedService(files, 7);
    const change = await counted(log, async () => {
      await push(2);
      return untilAll(loops, 2);
    });
    const title = `${nodes} nodes, ${services} Services, one docker-registry behind one nginx, interval 2 s`;
    report(
      `${title}: nothing is new`,
      `${(idle.requests / idleSeconds).toFixed(0)} requests a second, ${(idle.bytes / 1000 / idleSeconds).toFixed(0)} kB/s; ${(idle.upstream / idleSeconds).toFixed(1)} a second reach the registry`,
      'no error',
      `${idle.failures} answers other than 200 and 404`,
    );
    report(
      `${title}: one changed Service`,
      `all have it ${change.result.seconds.toFixed(1)} s after the push began; ${(change.bytes / 1000 / nodes).toFixed(0)} kB a node, ${change.upstream} of ${change.requests} requests reach the registry`,
      'no error',
      `${change.result.errors.length + first.errors.length} failed attempts, ${change.failures} answers other than 200 and 404; the first release ${first.seconds.toFixed(0)} s`,
    );
    client.close();
  } finally {
    for (const child of loops) child.kill('SIGKILL');
    await cache.close();
    registry.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

interface All {
  readonly seconds: number;
  readonly errors: readonly string[];
}

/** Waits until every process says that its nodes have a release. */
async function untilAll(loops: readonly ChildProcess[], serial: number): Promise<All> {
  const started = performance.now();
  const said = await Promise.all(
    loops.map(
      (child) =>
        new Promise<LoopsSay>((resolve, reject) => {
          child.on('message', (message: LoopsSay) => {
            if (message.serial === serial) resolve(message);
          });
          child.once('exit', (code) => reject(new Error(`a process of loops ended with ${code}`)));
        }),
    ),
  );
  return { seconds: (performance.now() - started) / 1000, errors: said.flatMap(({ errors }) => errors) };
}

/** What nginx logged during a piece of work: one line for each request. */
async function counted<T>(log: string, work: () => Promise<T>) {
  const before = readFileSync(log, 'utf8').length;
  const result = await work();
  const lines = readFileSync(log, 'utf8').slice(before).trim().split('\n');
  const fields = lines.map((line) => line.split(' '));
  return {
    result,
    requests: lines.length,
    bytes: fields.reduce((sum, one) => sum + Number(one[3]), 0),
    upstream: fields.filter((one) => one[4] !== 'HIT').length,
    failures: fields.filter((one) => !['200', '404'].includes(one[2] ?? '')).length,
  };
}

if (import.meta.main) await fetchManyBench(Number(process.argv[2] ?? 1_000), Number(process.argv[3] ?? 500));

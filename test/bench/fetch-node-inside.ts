// A node that fetches: from the push of a release to its rules in the kernel. Runs inside a network namespace of its own, started by
// fetch-node.ts, with the number of Services and the mode. Prints one JSON line. Both processes run as `./dev build` makes them.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeKey } from '@sluice/testing';
import { peek } from '../../packages/applier/src/state/peek.ts';
import { signText } from '../../packages/renderer/src/commands/signing/sign-text.ts';
import { pushRelease } from '../../packages/transport/src/content/push.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { bundleProgram } from '../../tools/bundle.ts';
import { DebianRegistry } from '../registry/debian.fixture.ts';
import { allocator } from './allocator.ts';
import { changedService, type Mode, released, rendered } from './fetch.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { highWaterMark, median } from './measure.ts';

/** The output: seconds from the end of a push until the node has confirmed the release, and what the fetch process used for one. */
export interface FetchCosts {
  readonly first: number;
  readonly median: number;
  readonly most: number;
  readonly push: number;
  readonly bytes: number;
  readonly processor: number;
  /** Per cent of one processor while nothing is new. */
  readonly idle: number;
  /** Most resident megabytes: with the first release, and with those after it. */
  readonly firstMegabytes: number;
  readonly megabytes: number;
  /** Of these its own, without pages of files; after the last release. */
  readonly own: number;
}

mustBeInNamespace();
const services = Number(process.argv[2] ?? 10_000);
const mode = (process.argv[3] ?? 'nftables') as Mode;
const rounds = 10;
const idleSeconds = 20;
const root = join(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-fetch-node-'));
const at = (name: string): string => join(scratch, name);
const children: ChildProcess[] = [];
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
});

execFileSync('/usr/sbin/ip', ['link', 'set', 'lo', 'up']);
const registry = await DebianRegistry.open();
if (typeof registry === 'string') throw new Error(registry);
await bundleProgram(root, 'sluiced', at('sluiced.mjs'), true);
writeFileSync(at('allowed_signers'), `bench namespaces="sluice-release" ${makeKey(at('key'))}\n`);
mkdirSync(at('state'), { mode: 0o700 });
writeFileSync(
  at('sluiced.yaml'),
  `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
node: node-0000
state: ${at('state')}
probation: { seconds: 0 }
signatures: { allowedSigners: ${at('allowed_signers')} }
source: { oci: { reference: "${registry.host}/shop:production" }, directory: ${at('fetched')}, intervalSeconds: 2 }
`,
);

const client = new RegistryClient({ registry: registry.host, repository: 'shop' }, { env: {} });
let files = rendered(mode, services, 1);

/** Pushes a release. @returns seconds of the push, and the version that the node shall confirm */
async function push(serial: number): Promise<{ readonly seconds: number; readonly version: string }> {
  const made = released(files, serial, 1);
  const signed = signText(made.files.get('SHA256SUMS') ?? '', at('key'), 'sluice-release');
  if ('why' in signed) throw new Error(signed.why);
  const started = performance.now();
  await pushRelease(client, made.release, new Map([...made.files, ['SHA256SUMS.sig', signed.signature]]), 'production');
  return {
    seconds: (performance.now() - started) / 1000,
    version: made.release.nodes['node-0000']?.version ?? '',
  };
}

function start(verb: string): number {
  const args = [at('sluiced.mjs'), verb, '-c', at('sluiced.yaml')];
  const child = spawn(process.execPath, args, { stdio: 'ignore', env: { ...process.env, ...allocator } });
  children.push(child);
  return child.pid ?? 0;
}

/** Seconds until the node has confirmed a version. */
async function confirmed(version: string, limitSeconds: number): Promise<number> {
  const started = performance.now();
  while (peek(at('state'))?.current?.version !== version) {
    if (performance.now() - started > limitSeconds * 1000) throw new Error(`not confirmed in ${limitSeconds} s`);
    await sleep(5);
  }
  return (performance.now() - started) / 1000;
}

/** Seconds of a processor of a process and of its children that have ended. */
function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}
const ownMegabytes = (pid: number): number =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
const bytesSoFar = (): number =>
  (JSON.parse(readFileSync(at('fetched/status.json'), 'utf8')) as { bytes: number }).bytes;

const first = await push(1);
const fetcher = start('fetch');
start('run');
const firstSeconds = await confirmed(first.version, 300);
await sleep(10_000);
const idleBefore = processorSeconds(fetcher);
await sleep(idleSeconds * 1000);
const idle = (100 * (processorSeconds(fetcher) - idleBefore)) / idleSeconds;

const firstMegabytes = highWaterMark(fetcher) / 1024;
// proc(5): the high-water mark begins again.
writeFileSync(`/proc/${fetcher}/clear_refs`, '5');
const latencies: number[] = [];
const pushes: number[] = [];
const bytes: number[] = [];
const processor: number[] = [];
for (let round = 0; round < rounds; round++) {
  files = changedService(files, (round * 3_701) % services, round);
  const before = { bytes: bytesSoFar(), processor: processorSeconds(fetcher) };
  const pushed = await push(round + 2);
  latencies.push(await confirmed(pushed.version, 60));
  pushes.push(pushed.seconds);
  bytes.push(bytesSoFar() - before.bytes);
  processor.push(processorSeconds(fetcher) - before.processor);
  // At another moment of the interval.
  await sleep(500 + 137 * round);
}
const costs: FetchCosts = {
  first: firstSeconds,
  median: median(latencies),
  most: Math.max(...latencies),
  push: median(pushes),
  bytes: median(bytes),
  processor: median(processor),
  idle,
  firstMegabytes,
  megabytes: highWaterMark(fetcher) / 1024,
  own: ownMegabytes(fetcher),
};
process.stdout.write(`${JSON.stringify(costs)}\n`);
client.close();
registry.close();
process.exit(0);

// The cost of an idle node with many Services, and of a rollback. Runs inside a network namespace of its own, started
// by node.ts, with the number of Services and the backend, or `nftables`. Prints one JSON line. sluiced runs as `./dev build` makes it, in one file: from
// the checkout it also keeps the text of 400 modules in memory, 10 MB.
import { execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LinuxNft } from '../../packages/applier/src/kernel/nft/nft-linux.ts';
import { NftSwitch } from '../../packages/applier/src/kernel/nft/nft-switch.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { LinuxSwitch } from '../../packages/applier/src/kernel/switch.ts';
import { findTool } from '../../packages/applier/src/kernel/tools.ts';
import { bundleProgram } from '../../tools/bundle.ts';
import { allocator } from './allocator.ts';
import { copyAsInstalled } from './as-installed.ts';
import { publish } from './inbox.ts';
import { median } from './measure.ts';
import { mustBeInNamespace } from './in-namespace.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 10_000);
/** `nft`, `legacy`: the store of mode iptables; `nftables`: that mode. */
const way = process.argv[3] ?? 'nft';
const isNftables = way === 'nftables';
const backend = isNftables ? 'nft' : way;
const idleSeconds = 60;
const root = join(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-node-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const bundle = join(scratch, 'rendered');
const config = join(scratch, 'sluiced.yaml');
const program = join(scratch, 'sluiced.mjs');
await bundleProgram(root, 'sluiced', program, true);
publish(bundle, services, isNftables ? 'nftables' : 'iptables');
mkdirSync(join(scratch, 'state'), { mode: 0o700 });
writeFileSync(
  config,
  `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-0000\nsignatures: { policy: none }\nbundle: ${bundle}\nstate: ${join(scratch, 'state')}\nbackend: ${backend}\nlisten: 127.0.0.1:10276\n`,
);
execFileSync('/usr/sbin/ip', ['link', 'set', 'lo', 'up']);

/** Of the daemon alone, without its children. */
function resident(pid: number): { now: number; own: number; file: number; most: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const megabytes = (key: string): number => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(text)?.[1] ?? 0) / 1024;
  return {
    now: megabytes('VmRSS'),
    own: megabytes('RssAnon'),
    file: megabytes('RssFile'),
    most: megabytes('VmHWM'),
  };
}

/** Seconds of processor time of the daemon and of its children that have exited. */
function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

/** The work after a first apply is done: the next scan compares the tables once more, as the drift watch has started. */
async function untilQuiet(pid: number): Promise<void> {
  for (let tries = 0, quiet = 0; tries < 36 && quiet < 6; tries++) {
    const before = processorSeconds(pid);
    await sleep(5_000);
    quiet = processorSeconds(pid) - before < 0.05 ? quiet + 1 : 0;
  }
}

async function untilConfirmed(): Promise<void> {
  for (let tries = 0; tries < 3_000; tries++) {
    const status = await fetch('http://127.0.0.1:10276/status').then(
      (response) => response.json() as Promise<{ generation: number | null }>,
      () => undefined,
    );
    if ((status?.generation ?? 0) >= 1) return;
    await sleep(200);
  }
  throw new Error('sluiced did not confirm the bundle');
}

/** Microseconds of the first packet of a connection, as its sender measures it. */
async function firstPacket(address: string): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 2_000; round++) {
    const socket = createSocket('udp4');
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
    const started = performance.now();
    await new Promise<void>((resolve) => socket.send('x', 80, address, () => resolve()));
    times.push((performance.now() - started) * 1000);
    socket.close();
  }
  return median(times);
}

const node = copyAsInstalled(process.execPath, join(scratch, 'node'));
const daemon = spawn(node, [program, 'run', '-c', config], {
  stdio: 'ignore',
  env: { ...process.env, ...allocator },
});
const pid = daemon.pid as number;
try {
  const started = performance.now();
  await untilConfirmed();
  const cold = performance.now() - started;
  await untilQuiet(pid);
  const before = processorSeconds(pid);
  await sleep(idleSeconds * 1000);
  const idle = ((processorSeconds(pid) - before) / idleSeconds) * 100;
  const memory = resident(pid);

  const switchStates = isNftables
    ? new NftSwitch(new LinuxNft(findTool('nft') ?? 'nft', runChildren()), () => [])
    : new LinuxSwitch(findTool('ipset') ?? 'ipset', runChildren());
  const back: number[] = [];
  for (let round = 0; round < 15; round++) {
    await switchStates.make([]);
    await switchStates.on(30);
    const at = performance.now();
    await switchStates.off('nat');
    back.push(performance.now() - at);
    await switchStates.off('filter');
    await switchStates.remove();
  }
  const last = `10.${96 + ((services + 255) >> 16)}.${((services + 255) >> 8) & 255}.${(services + 255) & 255}`;
  process.stdout.write(
    `${JSON.stringify({ cold, idle, ...memory, back: median(back), first: await firstPacket(last) })}\n`,
  );
} finally {
  daemon.kill('SIGTERM');
}

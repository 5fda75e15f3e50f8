// New connections at a constant rate while sluiced changes Services in mode nftables: releases that are confirmed, rolled back, and that
// the dead-man switch ends. Runs inside network and mount namespaces of its own, started by nftables-traffic.ts with the program `open`,
// the number of Services and of changes, and the rates to try. Prints one JSON line.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { ChangingBundle } from './nftables-bundle.ts';

mustBeInNamespace();
const [open, services = 1_000, changes = 60, ...rates] = process.argv
  .slice(2)
  .map((text, at) => (at === 0 ? text : Number(text))) as [string, ...number[]];
const perRelease = 100;
const deadmanSeconds = 3;
/** Of ten changes one lets the dead-man switch expire, and four are rolled back. */
const endingOf = (turn: number): 'commit' | 'roll back' | 'expiry' =>
  turn % 10 === 9 ? 'expiry' : turn % 2 === 0 ? 'commit' : 'roll back';

/** A client outside, this node, and pods that answer at each address. */
const links = `
  mkdir -p /run/netns
  for i in client pods; do ip netns add $i; ip -n $i link set lo up; done
  ip link set lo up
  ip link add c0 type veth peer name eth0 netns client
  ip link add p0 type veth peer name eth0 netns pods
  ip addr add 192.0.2.1/24 dev c0; ip link set c0 up; ip addr add 198.51.100.1/24 dev p0; ip link set p0 up
  ip -n client addr add 192.0.2.2/24 dev eth0; ip -n client link set eth0 up; ip -n client route add default via 192.0.2.1
  ip -n pods addr add 198.51.100.2/24 dev eth0; ip -n pods link set eth0 up; ip -n pods route add default via 198.51.100.1
  ip -n pods route add local 10.128.0.0/9 dev lo
  ip route add 10.128.0.0/9 via 198.51.100.2
  sysctl -qw net.ipv4.ip_forward=1 net.netfilter.nf_conntrack_udp_timeout=3
`;
execFileSync('/bin/sh', ['-ec', links]);

const scratch = mkdtempSync(join(tmpdir(), 'sluice-traffic-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const bundle = new ChangingBundle(join(scratch, 'rendered'), services);
const udp = (text: string): string => text.replaceAll(' . tcp . ', ' . udp . ').replaceAll('tcp4', 'udp4');
bundle.change(bundle.paths, udp);

const base = defaultConfig('node-0000');
const probation = { ...base.probation, seconds: 0, deadmanSeconds };
const session = await openSession({ ...base, state: join(scratch, 'state'), probation }, 'change', () => undefined);
const inbox = new Inbox(bundle.directory, Date.now);

async function put(isEnding: () => boolean): Promise<string> {
  const arrival = await inbox.look('changed');
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const never = new Promise<void>(() => undefined);
  const offers = { arrival: () => never, look: () => Promise.resolve(undefined), isEnding };
  const outcome = await session.reconciler.put(arrival.tree.files, true, offers);
  session.idle();
  return outcome.kind;
}

/** Stops this process, as a debugger or a frozen machine does, until the kernel has turned the switch off. */
function freeze(): boolean {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, (deadmanSeconds + 0.2) * 1000);
  return false;
}

const texts = bundle.read(bundle.paths);
/** A release makes each Service remember its clients, then lose three of five endpoints, then what it was. */
const versions: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => text.replaceAll('goto n${count}', 'goto s${count}t600'),
  (text) => text.replaceAll(/(?:^.* udp4 \{ .*\n){3}(?!.* udp4 )/gm, ''),
];
const version = new Map<string, number>();
const counts = { commit: 0, 'roll back': 0, expiry: 0 };

async function changeOnce(turn: number): Promise<void> {
  const ending = endingOf(turn);
  const from = (turn * perRelease) % bundle.paths.length;
  const some = bundle.paths.slice(from, from + perRelease);
  const before = bundle.read(some);
  const next = new Map(some.map((path) => [path, ((version.get(path) ?? 0) + 1) % versions.length]));
  bundle.write(new Map([...next].map(([path, at]) => [path, versions[at]?.(texts.get(path) ?? '') ?? ''])));
  const kind = await put(() => (ending === 'expiry' ? freeze() : ending === 'roll back'));
  // On a busy machine the dead-man switch may end a release that was to be confirmed.
  if (kind !== 'rolled-back' && (ending !== 'commit' || kind !== 'confirmed')) throw new Error(`${ending}: ${kind}`);
  counts[kind === 'confirmed' ? 'commit' : ending === 'commit' ? 'expiry' : ending] += 1;
  if (kind === 'rolled-back') bundle.write(before);
  else for (const [path, at] of next) version.set(path, at);
}

interface Run {
  readonly seconds: number;
  readonly sent: number;
  readonly lost: number;
}

await put(() => false);
const addresses = execFileSync('/usr/sbin/nft', ['-n', 'list', 'set', 'inet', 'sluice', 'cluster4'], {
  encoding: 'utf8',
}).match(/10\.\d+\.\d+\.\d+/g);
const targets = (addresses ?? []).map((address) => `${address}:80`);
const child = spawn(open, ['flood', 'client', 'pods', '8080', ...targets], { stdio: ['pipe', 'pipe', 'inherit'] });
const output = createInterface({ input: child.stdout })[Symbol.asyncIterator]();

/** @returns what was lost of the connections that were opened during the work */
async function during(rate: number, work: () => Promise<unknown>): Promise<Run> {
  child.stdin.write(`${rate}\n`);
  await work();
  child.stdin.write('\n');
  return JSON.parse((await output.next()).value as string) as Run;
}

const quiet = (seconds: number) => () => sleep(seconds * 1000);
await during(1_000, quiet(1));
let rate = 0;
for (const tried of rates) {
  const { sent, seconds, lost } = await during(tried, quiet(5));
  if (lost === 0 && sent >= 0.95 * tried * seconds) rate = tried;
}
const before = await during(rate, quiet(20));
const changed = await during(rate, async () => {
  for (let turn = 0; turn < changes; turn++) await changeOnce(turn);
});
const after = await during(rate, quiet(20));
child.stdin.end();
session.close();
process.stdout.write(`${JSON.stringify({ rate, before, changed, after, counts })}\n`);

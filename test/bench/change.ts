// One endpoint of one Service changes: from the complete bundle to the rules in the kernel, with every step of sluiced. Runs inside a
// network namespace of its own, started by main.ts. Prints one JSON line.
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { smallHeap } from '../../packages/applier/src/memory.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { median } from './measure.ts';
import { mustBeInNamespace } from './in-namespace.ts';

mustBeInNamespace();
// As in the daemon: see allocator.ts.
const heap = smallHeap();
const services = Number(process.argv[2] ?? 1000);
const rounds = Number(process.argv[3] ?? 15);
const nodeName = 'node-0000';
const scratch = mkdtempSync(join(tmpdir(), 'sluice-change-'));
const bundle = join(scratch, 'rendered');
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const author = fork(join(import.meta.dirname, 'change-author.ts'), [String(services), scratch, nodeName]);
const authorEnded = once(author, 'exit');

/** The whole cluster with the first endpoint of one more Service at another address; below 0: unchanged. @returns kube-proxy's payload */
async function publish(service: number, address = ''): Promise<string> {
  author.send({ service, address });
  const [answer] = (await Promise.race([once(author, 'message'), authorEnded])) as [unknown];
  if (answer !== 'done') throw new Error('the process that writes bundles ended');
  return readFileSync(join(scratch, 'kube-proxy.rules'), 'utf8');
}

/** kube-proxy's rules have a kernel of their own: in one kernel each commit would pay for both. */
const baseline = `slb-${process.pid}`;
execFileSync('/usr/sbin/ip', ['netns', 'add', baseline]);
process.on('exit', () => execFileSync('/usr/sbin/ip', ['netns', 'delete', baseline]));

function inBaseline(command: readonly string[], input: string): void {
  const args = [`--net=/run/netns/${baseline}`, ...command];
  execFileSync('/usr/bin/nsenter', args, { input, stdio: ['pipe', 'ignore', 'pipe'] });
}

/** The duration of kube-proxy's restore for the same change. */
function partialSync(payload: string): number {
  const started = performance.now();
  inBaseline(['/usr/sbin/iptables-nft-restore', '-w', '5', '--noflush', '--counters'], payload);
  return performance.now() - started;
}

let switchedAt = 0;
let steps = 0;
const session = await openSession(
  { ...defaultConfig(nodeName), state: join(scratch, 'state'), backend: 'nft' },
  'change',
  (event, fields) => {
    // All rules are in the kernel and packets meet them; the rest is to read them back and to write the journal.
    if (event === 'phase' && fields['phase'] === 'verify') switchedAt = performance.now();
    if (event === 'step') steps++;
  },
);
const inbox = new Inbox(bundle, Date.now);

/** Milliseconds until packets meet the new rules, and until they are verified and confirmed on disk. */
async function put(): Promise<{ switched: number; confirmed: number }> {
  const started = performance.now();
  // As the daemon scans after an event; the first scan reads everything.
  const arrival = await inbox.look('changed');
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await session.reconciler.put(arrival.tree.files, false);
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome));
  return { switched: switchedAt - started, confirmed: performance.now() - started };
}

/** The kernel's duration for any commit to this table, however small: it checks every rule that a packet can reach. */
function commitAlone(): number {
  const restore = (lines: string): void => {
    execFileSync('/usr/sbin/iptables-nft-restore', ['--noflush'], { input: `*nat\n${lines}COMMIT\n` });
  };
  const started = performance.now();
  restore(':SLB-ALONE - [0:0]\n-A SLB-ALONE -j ACCEPT\n');
  const took = performance.now() - started;
  restore(':SLB-ALONE - [0:0]\n-X SLB-ALONE\n');
  return took;
}

inBaseline(['/usr/sbin/iptables-nft-restore', '--noflush'], await publish(-1));
const cold = await put();
heap.settle();
heap.collect();
const ours: Awaited<ReturnType<typeof put>>[] = [];
const again: typeof ours = [];
const theirs: number[] = [];
const alone: number[] = [];
for (let round = 0; round < rounds * 2; round++) {
  const service = (round * 37) % services;
  const payload = await publish(service, `10.250.0.${round + 1}`);
  (round % 2 === 0 ? ours : again).push(await put());
  alone.push(commitAlone());
  theirs.push(partialSync(payload));
  // As the idle daemon does.
  session.idle();
}

/** The same tree again, as from another process: only its bytes are known. */
async function equal(): Promise<{ ms: number; steps: number }> {
  const before = steps;
  const started = performance.now();
  const arrival = await new Inbox(bundle, Date.now).look();
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await session.reconciler.put(arrival.tree.files, false);
  if (outcome.kind !== 'same') throw new Error(JSON.stringify(outcome));
  return { ms: performance.now() - started, steps: steps - before };
}

author.kill();
const same = await equal();
session.close();
const result = {
  same: same.ms,
  sameSteps: same.steps,
  cold: cold.confirmed,
  switched: median(ours.map((run) => run.switched)),
  again: median(again.map((run) => run.switched)),
  confirmed: median(ours.map((run) => run.confirmed)),
  partialSync: median(theirs),
  commitAlone: median(alone),
};
process.stdout.write(`${JSON.stringify(result)}\n`);

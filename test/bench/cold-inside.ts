// Loads the rules of many Services into an empty kernel, once. Runs inside network and mount namespaces of its own, started by cold.ts, with
// the number of Services, the backend, and the program: `ours`, all of sluiced, or `theirs`, one iptables-restore of the same flat
// rules. Prints one JSON line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, resolveNode } from '@sluice/bundle';
import { linkFlat, printProgram, type ResolvedRules } from '@sluice/netfilter';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { publish } from './inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 1_000);
const backend = process.argv[3] === 'legacy' ? 'legacy' : 'nft';
const ours = process.argv[4] !== 'theirs';
const nodeName = 'node-0000';
/** A slower baseline is reported as this time. */
const patienceMs = 600_000;
const scratch = mkdtempSync(join(tmpdir(), 'sluice-cold-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const bundle = join(scratch, 'rendered');
publish(bundle, services);

async function files(): Promise<BundleFiles> {
  const arrival = await new Inbox(bundle, Date.now).look();
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  return arrival.tree.files;
}

/** Milliseconds from the directory to packets that meet the rules, and from the first rule in the kernel. */
async function sluiced(): Promise<{ readonly ms: number; readonly loadMs: number }> {
  const at = new Map<string, number>();
  const see = (event: string): void => void (at.has(event) || at.set(event, performance.now()));
  const config = { ...defaultConfig(nodeName), state: join(scratch, 'state'), backend } as const;
  const session = await openSession({ ...config, probation: { ...config.probation, seconds: 0 } }, 'change', see);
  const started = performance.now();
  const outcome = await session.reconciler.put(await files(), false);
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome));
  session.close();
  const inKernel = at.get('in-kernel') ?? Number.NaN;
  if (process.env['SLUICE_BENCH_PHASES'] !== undefined)
    for (const [event, moment] of at) process.stderr.write(`${event} ${(moment - started).toFixed(0)}\n`);
  return { ms: inKernel - started, loadMs: inKernel - (at.get('step') ?? Number.NaN) };
}

/** The same for one restore; more than `patienceMs` when it timed out. */
async function oneRestore(): Promise<{ readonly ms: number; readonly loadMs: number }> {
  const node = resolveNode(await files(), nodeName);
  if (!('version' in node)) throw new Error(node[0]?.message);
  const linked = linkFlat(node.rules.ipv4 as ResolvedRules, 'ipv4');
  if (linked.problems.length > 0) throw new Error(linked.problems[0]?.message);
  const input = printProgram(linked.program);
  const started = performance.now();
  try {
    execFileSync(`/usr/sbin/iptables-${backend}-restore`, ['--noflush'], { input, timeout: patienceMs });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ETIMEDOUT') throw error;
  }
  const ms = performance.now() - started;
  return { ms, loadMs: ms };
}

process.stdout.write(`${JSON.stringify(ours ? await sluiced() : await oneRestore())}\n`);

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Daemon, Host } from '../../netns/cluster-host.ts';
import type { Api } from './api.ts';
import { type ParityCluster, servers } from './cluster.ts';
import { now, processNamespace, startNode, WitnessProcess } from './node.ts';
import type { BenchPrograms } from './programs.ts';
import type { BenchSubject } from './subjects.ts';
import { proportionalMb, type Usage, usageIn } from './usage.ts';

/** The figures of one start of a subject and some changes. Times are milliseconds. */
export interface Round {
  /** Processor time that 1,000 new files took before the start. */
  readonly filesMs: number;
  /** From the start of its programs to a packet that the last Service answers. */
  readonly cold: number;
  /** Processor time until then and until it was idle, by program. */
  readonly coldCpu: Readonly<Record<string, number>>;
  /** From the request that changes an endpoint to a packet to the new one. */
  readonly latencies: readonly number[];
  /** Processor time of each change by program: from its request to the next one, so with what comes behind it. */
  readonly changesCpu: readonly Readonly<Record<string, number>>[];
  /** Resident memory before the changes. */
  readonly before: Memory;
  /** Resident memory after them. */
  readonly memory: Memory;
  /** The peak of all of its processes together. */
  readonly mostMb: number;
  /** Packets of the witness during the changes. */
  readonly packets: { readonly sent: number; readonly lost: number };
  readonly steady?: Steady;
}

/** By program. */
type Memory = Readonly<
  Record<string, Pick<Usage, 'residentMb' | 'ownMb' | 'peakMb'> & { readonly proportionalMb: number }>
>;

/** 100 changes a second: once a second the time to a packet is measured. */
export interface Steady {
  readonly seconds: number;
  readonly sent: number;
  readonly latencies: readonly number[];
  readonly cpu: Readonly<Record<string, number>>;
  /** Resident memory of each program when it began, and at the end of each tenth: what comes between two collections is in it. */
  readonly residentMb: Readonly<Record<string, readonly number[]>>;
}

export interface RoundOptions {
  readonly programs: BenchPrograms;
  readonly api: Api;
  readonly cluster: ParityCluster;
  /** Where programs read and write; nothing in it is removed before the end of the bench. */
  readonly dir: string;
  readonly changes: number;
  /** Seconds of 100 changes a second at the end; 0: none. */
  readonly steadySeconds: number;
}

/** iptables-restore 1.8.9 takes more than ten minutes for 10,000 new Services on a busy machine. */
const coldMs = 1_800_000;
const changeMs = 120_000;
const steadyRate = 100;

/** One subject on a new node. @throws where a Service is not served in time, with the logs of the programs */
export async function runRound(subject: BenchSubject, options: RoundOptions): Promise<Round> {
  const { api, cluster, programs } = options;
  await api.put(cluster.moved(servers[0]));
  const dir = mkdtempSync(join(options.dir, 'round-'));
  await quietDisk(dir);
  const filesMs = filesCost(join(dir, 'files'));
  const host = await startNode();
  const witness = new WitnessProcess(host, cluster.asked);
  const look = (): ReadonlyMap<string, Usage> => usageIn(processNamespace(host), subject.programs);
  let mostMb = 0;
  const sampler = setInterval(() => {
    mostMb = Math.max(
      mostMb,
      [...look().values()].reduce((sum, { treeMb }) => sum + treeMb, 0),
    );
  }, 100);
  const daemons: Daemon[] = [];
  try {
    const own = join(dir, 'programs');
    mkdirSync(own);
    const commands = subject.setUp(programs, api, own);
    const started = now();
    daemons.push(...commands.map(({ argv, env }) => host.start(argv, env)));
    const cold = (await witness.answered(cluster.asked, coldMs)) - started;
    await untilQuiet(look);
    const before = look();
    const memoryBefore = memoryOf(before);
    await witness.count();
    const { latencies, changesCpu } = await change(options, witness, look);
    const after = look();
    const memory = memoryOf(after);
    const { sent, lost } = await witness.count();
    const steady = options.steadySeconds > 0 ? await steadily(options, witness, look) : undefined;
    return {
      filesMs,
      cold,
      coldCpu: cpuSince(before),
      latencies,
      changesCpu,
      before: memoryBefore,
      memory,
      mostMb,
      packets: { sent, lost },
      ...(steady && { steady }),
    };
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await logsOf(daemons)}`, { cause: error });
  } finally {
    clearInterval(sampler);
    await end(witness, daemons, host);
  }
}

async function end(witness: WitnessProcess, daemons: readonly Daemon[], host: Host): Promise<void> {
  await witness.close();
  await Promise.all(daemons.map((daemon) => daemon.stop()));
  await host.close();
}

async function logsOf(daemons: readonly Daemon[]): Promise<string> {
  await Promise.all(daemons.map((daemon) => daemon.stop()));
  const outputs = await Promise.all(daemons.map(async (daemon) => (await daemon.ended).output));
  return outputs.map((output) => output.slice(-2_000)).join('\n');
}

function cpuSince(
  after: ReadonlyMap<string, Usage>,
  before: ReadonlyMap<string, Usage> = new Map(),
): Readonly<Record<string, number>> {
  return Object.fromEntries([...after].map(([name, { cpuMs }]) => [name, cpuMs - (before.get(name)?.cpuMs ?? 0)]));
}

const memoryOf = (usage: ReadonlyMap<string, Usage>): Memory =>
  Object.fromEntries(
    [...usage].map(([name, { pid, residentMb, ownMb, peakMb }]) => [
      name,
      { residentMb, ownMb, peakMb, proportionalMb: proportionalMb(pid) },
    ]),
  );

/** The work after a start is done: for 3 s its programs take less than a twentieth of a processor. */
async function untilQuiet(look: () => ReadonlyMap<string, Usage>): Promise<void> {
  const total = (): number => [...look().values()].reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  for (let tries = 0, quiet = 0; tries < 60 && quiet < 3; tries++) {
    const before = total();
    await sleep(1_000);
    quiet = total() - before < 50 ? quiet + 1 : 0;
  }
}

/** One change at a time, so far apart that no back-off counts: kube-proxy waits a second between two syncs. */
async function change(
  { api, cluster, changes }: RoundOptions,
  witness: WitnessProcess,
  look: () => ReadonlyMap<string, Usage>,
): Promise<Pick<Round, 'latencies' | 'changesCpu'>> {
  const latencies: number[] = [];
  const changesCpu: Round['changesCpu'][number][] = [];
  for (let turn = 0; turn < changes; turn++) {
    const before = look();
    latencies.push(await moveOnce({ api, cluster }, witness, turn));
    await sleep(1_500 + ((turn * 211) % 700));
    changesCpu.push(cpuSince(look(), before));
  }
  return { latencies, changesCpu };
}

async function moveOnce(
  { api, cluster }: Pick<RoundOptions, 'api' | 'cluster'>,
  witness: WitnessProcess,
  turn: number,
): Promise<number> {
  const server = servers[(turn + 1) % servers.length] as string;
  const asked = now();
  const [met] = await Promise.all([witness.moved(server, asked, changeMs), api.put(cluster.moved(server))]);
  return met - asked;
}

async function steadily(
  { api, cluster, changes, steadySeconds }: RoundOptions,
  witness: WitnessProcess,
  look: () => ReadonlyMap<string, Usage>,
): Promise<Steady> {
  const before = look();
  const started = now();
  const latencies: number[] = [];
  const memories = [before];
  const sending: Promise<void>[] = [];
  let sent = 0;
  const send = (): void => {
    const due = Math.floor(((now() - started) / 1000) * steadyRate);
    for (; sent < due; sent++) {
      const put = api.put(cluster.churn(sent));
      // Reported at the end, by Promise.all.
      put.catch(() => {});
      sending.push(put);
    }
  };
  const timer = setInterval(send, 5);
  try {
    for (let turn = changes; now() - started < steadySeconds * 1000; turn++) {
      await sleep(1_000);
      latencies.push(await moveOnce({ api, cluster }, witness, turn));
      if (now() - started > (memories.length / 10) * steadySeconds * 1000) memories.push(look());
    }
  } finally {
    clearInterval(timer);
    await Promise.all(sending);
  }
  const after = look();
  const resident = (name: string): readonly number[] => memories.map((usage) => usage.get(name)?.residentMb ?? 0);
  return {
    seconds: (now() - started) / 1000,
    sent,
    latencies,
    cpu: cpuSince(after, before),
    residentMb: Object.fromEntries([...after.keys()].map((name) => [name, resident(name)])),
  };
}

/**
 * Waits until everything on the disk of a directory is written. An ext4 without a journal does not give the inode of a deleted file to
 * another one for a minute, for six minutes while the deletion is not written (`recently_deleted` in `fs/ext4/ialloc.c`), and skips
 * all of them for each new file: 10,000 files took ten times as long after 40,000 deletions. So no round deletes its files, either.
 */
async function quietDisk(dir: string): Promise<void> {
  await promisify(execFile)('/usr/bin/sync', ['-f', dir]);
}

/** Processor time of 1,000 new files, in milliseconds. @param dir does not exist yet */
function filesCost(dir: string): number {
  mkdirSync(dir);
  const before = process.cpuUsage();
  for (let n = 0; n < 1_000; n++) writeFileSync(join(dir, String(n)), 'x'.repeat(700));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { programPath } from '@sluice/testing';
import { execa, execaSync } from 'execa';
import { cacheFolder } from '../parity/build.ts';
import { booted, type Guest } from './guest.ts';
import { cache, find, nodeProgram } from './image.ts';

/**
 * A Linux kernel in user mode: a program of this machine, on the files of this machine, with memory over them. It has the modules of mode ipvs,
 * and is some eight times as fast as the emulated guest. Its nf_tables has neither IPv4 nor IPv6: only the legacy store works, and no mode nftables.
 */

const checkout = join(import.meta.dirname, '..', '..');
/** The package of Debian; it is unpacked, not installed. */
const name = 'user-mode-linux';

/** The reason why none can run here, with a remedy; undefined if one can. */
export function whyNoUserMode(): string | undefined {
  if (process.arch !== 'x64') return `the kernel in user mode is built for x64, this machine is ${process.arch}`;
  const missing = ['busybox', 'ipset', 'ipvsadm', 'conntrack', 'xtables-legacy-multi'].filter((one) => !find(one));
  if (missing.length > 0) return `install the Debian packages of ${missing.join(', ')}`;
  return version() === undefined ? `no package ${name} is available: apt-get update` : undefined;
}

function version(): string | undefined {
  const { stdout } = execaSync('apt-cache', ['policy', name], { reject: false, env: { LC_ALL: 'C' } });
  return /Candidate: (\d\S+)/.exec(stdout)?.[1];
}

/** The unpacked package, from the cache where it is there. */
function unpacked(): string {
  const made = join(cache, `user-mode-${version()}`);
  if (existsSync(made)) return made;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, 'new-'));
  try {
    execaSync('apt-get', ['download', '-qq', name], { cwd: work });
    execaSync('sh', ['-ec', 'dpkg-deb -x *.deb .; rm *.deb'], { cwd: work });
    // Another process may have unpacked it meanwhile.
    if (!existsSync(made)) renameSync(work, made);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return made;
}

/** Boots one with the present checkout. @throws with the end of its console when it does not start */
export async function bootUserMode(): Promise<Guest> {
  const files = unpacked();
  const folder = mkdtempSync(join(tmpdir(), 'sluice-um-'));
  const releases = execaSync('ls', [join(files, 'usr/lib/uml/modules')]).stdout;
  mkdirSync(cacheFolder, { recursive: true });
  const paths = {
    SLUICE_CHECKOUT: checkout,
    SLUICE_PROGRAMS: dirname(programPath('sluice')),
    SLUICE_CACHE: cacheFolder,
    SLUICE_MODULES: join(files, 'usr/lib/uml/modules', releases),
    SLUICE_NODE: nodeProgram(),
  };
  const line = ['mem=2G', 'quiet', 'ro', 'rootfstype=hostfs', 'rootflags=/', `uml_dir=${folder}`, 'ssl0=fd:3'];
  const console = ['con=null', 'con0=null,fd:1', 'init=/bin/sh'];
  const given = Object.entries(paths).map(([key, value]) => `${key}=${value}`);
  // A process group of its own, as its processes are processes of the machine.
  const machine = execa(
    join(files, 'usr/bin/linux.uml'),
    [...line, ...console, ...given, '--', join(import.meta.dirname, 'user-mode.sh')],
    {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      all: true,
      reject: false,
      detached: true,
      maxBuffer: 4 * 1024 * 1024,
    },
  );
  hurry(machine.pid as number);
  const end = (): void => {
    try {
      process.kill(-(machine.pid as number), 'SIGKILL');
    } catch {
      // It has ended.
    }
  };
  process.once('exit', end);
  return await booted(Object.assign(machine, { kill: end }), async () => machine.stdio[3] as unknown as Duplex, folder);
}

/**
 * A whole node has one processor there: beside other tests it would have the share of one process, and its packets would wait for seconds.
 * Where the machine groups processes by session, the niceness of the group counts, otherwise that of the process.
 */
function hurry(pid: number): void {
  try {
    setPriority(pid, -10);
    writeFileSync(`/proc/${pid}/autogroup`, '-10');
  } catch {
    // It runs as slowly as others.
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync, renameSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { sampleBundle, sampleNode, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';

/** The real program on the real kernel, in a network namespace with a /run of its own. */

const main = fileURLToPath(new URL('../../packages/applier/src/main.ts', import.meta.url));
const foreign =
  '*nat\n:CNI-X - [0:0]\n-A CNI-X -j RETURN\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\nCOMMIT\n*filter\n-A FORWARD -s 192.0.2.7/32 -j DROP\nCOMMIT\n';
const web = (...endpoints: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': endpoints, 'shop/cart': [50] }, families: ['ipv4', 'ipv6'] });

let name: string;
let directory: string;
const children: ChildProcess[] = [];

beforeEach(needKernel);
beforeEach(async () => {
  name = `slt-${process.pid}-${randomBytes(3).toString('hex')}`;
  directory = mkdtempSync(`${tmpdir()}/slt-`);
  await execa('ip', ['netns', 'add', name]);
  await execa('ip', ['netns', 'exec', name, 'ip', 'link', 'set', 'lo', 'up']);
});

afterEach(async () => {
  for (const child of children.splice(0)) if (child.exitCode === null && child.signalCode === null) await kill(child);
  await execa('ip', ['netns', 'delete', name], { reject: false });
  rmSync(directory, { recursive: true, force: true });
});

/** A command line that runs inside the namespace. `exec` all the way: the process that is started is the program itself. */
function inside(command: readonly string[]): [string, string[]] {
  return [
    'ip',
    ['netns', 'exec', name, 'unshare', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh', ...command],
  ];
}

async function tool(command: readonly string[], input = ''): Promise<string> {
  const [file, args] = inside(command);
  return (await execa(file, args, { input })).stdout;
}

async function sluiced(
  ...args: readonly string[]
): Promise<{ exitCode?: number | undefined; stdout: string; stderr: string }> {
  const [file, rest] = inside([process.execPath, main, ...args]);
  return execa(file, rest, { reject: false });
}

function startDaemon(): ChildProcess {
  const [file, args] = inside([process.execPath, main, 'run', '-c', `${directory}/sluiced.yaml`]);
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout?.resume();
  children.push(child);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

function writeConfig(backend: string, more = ''): void {
  const fields = [
    `node: ${sampleNode}`,
    `bundle: ${directory}/rendered`,
    `state: ${directory}/state`,
    `backend: ${backend}`,
  ];
  writeFileSync(
    `${directory}/sluiced.yaml`,
    `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n${fields.join('\n')}\nscanIntervalSeconds: 1\n${more}`,
  );
}

/** The rules of both tables and families, without counters and dates. */
async function rules(backend: string): Promise<string> {
  const save = async (tool4: string): Promise<string> => {
    const text = await tool([tool4]);
    return text
      .split('\n')
      .filter((line) => /^(-A|:KUBE)/.test(line))
      .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
      .join('\n');
  };
  return `${await save(`iptables-${backend}-save`)}\n${await save(`ip6tables-${backend}-save`)}`;
}

async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  for (let tries = 0; tries < 200; tries++) {
    const seen = await look();
    if (seen) return seen;
    await sleep(50);
  }
  throw new Error(`${what} did not happen`);
}

const standing = (): { current?: number; open?: unknown; history?: { what: string; version: string }[] } => {
  try {
    return JSON.parse(readFileSync(`${directory}/state/state.json`, 'utf8')) as { current?: number };
  } catch {
    return {};
  }
};

describe.each(['nft', 'legacy'])('sluiced on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend as 'nft' | 'legacy'));

  test('applies, repairs, goes back and cleans up; rules of others stay byte for byte', async () => {
    writeConfig(backend);
    await tool([`iptables-${backend}-restore`, '--noflush'], foreign);
    const before = await rules(backend);
    writeBundle(`${directory}/rendered`, web(1, 2));
    const apply = (...more: string[]): ReturnType<typeof sluiced> =>
      sluiced('apply', `${directory}/rendered`, '-c', `${directory}/sluiced.yaml`, ...more);
    expect((await apply('--dry-run')).exitCode).toBe(1);
    expect(await rules(backend)).toBe(before);
    expect(await apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
    expect((await apply('--dry-run')).exitCode).toBe(0);
    const good = await rules(backend);
    await tool([`iptables-${backend}`, '-t', 'nat', '-F', 'KUBE-SERVICES']);
    expect((await apply()).exitCode).toBe(0);
    expect(await rules(backend)).toBe(good);
    expect((await sluiced('rollback', '0', '-c', `${directory}/sluiced.yaml`)).exitCode).toBe(0);
    expect(await rules(backend)).toBe(before);
    expect((await apply()).exitCode).toBe(0);
    expect((await sluiced('cleanup', '-c', `${directory}/sluiced.yaml`)).exitCode).toBe(0);
    expect(await rules(backend)).toBe(before);
  });

  test('when a probe fails after the change, the old rules are back and the exit code is 4', async () => {
    writeConfig(
      backend,
      `probes:\n  - {name: flag, exec: [/usr/bin/test, -e, ${directory}/healthy], attempts: 2, intervalSeconds: 0.1}\n`,
    );
    writeFileSync(`${directory}/healthy`, '');
    writeBundle(`${directory}/rendered`, web(1, 2));
    const args = ['apply', `${directory}/rendered`, '-c', `${directory}/sluiced.yaml`];
    expect((await sluiced(...args)).exitCode).toBe(0);
    const good = await rules(backend);
    writeConfig(
      backend,
      `probes:\n  - {name: flag, exec: [/bin/sh, -c, "rm ${directory}/healthy"], attempts: 2, intervalSeconds: 0.1}\n`,
    );
    writeBundle(`${directory}/rendered`, web(3));
    expect((await sluiced(...args)).exitCode).toBe(4);
    expect(await rules(backend)).toBe(good);
  });

  test('killed at any moment, the next one ends on the old or the new rules', { timeout: 180_000 }, async () => {
    writeConfig(backend);
    await tool([`iptables-${backend}-restore`, '--noflush'], foreign);
    const bundles = [web(1, 2), web(2, 3, 4)];
    const good: string[] = [];
    for (const files of bundles) {
      writeBundle(`${directory}/rendered`, files);
      expect((await sluiced('apply', `${directory}/rendered`, '-c', `${directory}/sluiced.yaml`)).exitCode).toBe(0);
      good.push(await rules(backend));
    }
    const rounds = process.env['SLUICE_SOAK'] ? 200 : 8;
    for (let round = 0; round < rounds; round++) {
      const daemon = startDaemon();
      await until('the daemon starts', async () => (await askStatus()) !== undefined);
      writeBundle(`${directory}/rendered`, bundles[round % 2] as ReadonlyMap<string, string>);
      await sleep(40 + ((round * 37) % 160));
      await kill(daemon);
      const next = startDaemon();
      await until('the restart reaches old or new rules', async () => {
        return (await askStatus()) !== undefined && standing().open === null && good.includes(await rules(backend));
      });
      await until('the newest bundle is in', async () => {
        return standing().open === null && (await rules(backend)) === good[round % 2];
      });
      await kill(next);
    }
  });
});

async function askStatus(path = '/status'): Promise<string | undefined> {
  const text = await tool(['curl', '-s', '-m', '2', `http://127.0.0.1:10276${path}`]).catch(() => undefined);
  return text;
}

describe('sluiced run', () => {
  const generations = async (): Promise<number> =>
    standing().history?.filter(({ what }) => what === 'confirmed').length ?? 0;

  test('notices a written bundle, a swapped link whose old target stays, and drift; a vanished directory changes nothing', async () => {
    writeConfig('nft');
    const [first, second] = [`${directory}/one`, `${directory}/two`];
    writeBundle(first, web(1));
    writeBundle(second, web(2));
    symlinkSync(first, `${directory}/rendered`);
    const daemon = startDaemon();
    await until('the first bundle is in', async () => (await generations()) === 1);
    symlinkSync(second, `${directory}/next`);
    renameSync(`${directory}/next`, `${directory}/rendered`);
    await until('the swapped bundle is in', async () => (await generations()) === 2);
    const good = await rules('nft');
    await tool(['iptables-nft', '-t', 'nat', '-F']);
    await until('the rules are repaired', async () => (await rules('nft')) === good);
    rmSync(`${directory}/rendered`);
    const report = await until('the alarm is raised', async () => {
      const text = await askStatus();
      return text?.includes('BUNDLE_ABSENT') ? text : undefined;
    });
    expect(JSON.parse(report)).toMatchObject({ healthy: true, generation: 2 });
    expect(await rules('nft')).toBe(good);
    expect(await askStatus('/metrics')).toContain('sluiced_outcomes_total{outcome="confirmed"} 2');
    mkdirSync(`${directory}/rendered`);
    writeBundle(`${directory}/rendered`, web(3));
    await until('the replaced directory is in', async () => (await generations()) === 3);
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill('SIGTERM');
    expect(await ended).toBe(0);
  });

  test('a second one is refused while the first holds the lock', { timeout: 60_000 }, async () => {
    writeConfig('nft');
    writeBundle(`${directory}/rendered`, web(1));
    startDaemon();
    await until('the first bundle is in', async () => (await generations()) === 1);
    const second = await sluiced('apply', `${directory}/rendered`, '-c', `${directory}/sluiced.yaml`);
    expect(second).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_LOCKED') });
  });
});

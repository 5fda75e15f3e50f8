// @module-tag test
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ChangeCount } from '../../packages/applier/src/kernel/changes/change-count.ts';
import { retries } from '../../packages/applier/src/limits.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/** The count of changes of nf_tables, on the real kernel. */

const name = `slc-${process.pid}-${randomBytes(3).toString('hex')}`;
const { leastMs: monitorRestartMs } = retries.monitor;
let directory: string;
let count: ChangeCount;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  await execa('ip', ['netns', 'add', name]);
  directory = mkdtempSync(join(tmpdir(), 'sluiced-count-'));
  const monitor = join(directory, 'monitor');
  writeFileSync(monitor, `#!/bin/sh\nexec ip netns exec ${name} xtables-monitor "$@"\n`);
  chmodSync(monitor, 0o755);
  Object.assign(retries.monitor, { leastMs: 10 });
  count = new ChangeCount({ monitor, setpriv: 'setpriv' }, () => performance.now());
});
afterEach(async () => {
  count.close();
  Object.assign(retries.monitor, { leastMs: monitorRestartMs });
  await execa('ip', ['netns', 'delete', name]);
  rmSync(directory, { recursive: true });
});

const inside = async (...command: readonly string[]): Promise<unknown> =>
  execa('ip', ['netns', 'exec', name, ...command]);
const pids = async (): Promise<readonly number[]> =>
  (await execa('ip', ['netns', 'pids', name])).stdout.split('\n').filter(Boolean).map(Number);

test('stays the same while nothing changes, and differs after each change of any table, also when more came than fits', async () => {
  const changes = [
    ['iptables-nft', '-t', 'nat', '-N', 'ANY'],
    ['ip6tables-nft', '-A', 'INPUT', '-j', 'ACCEPT'],
    ['iptables-nft', '-t', 'nat', '-X'],
    ['nft', 'add', 'table', 'inet', 'any'],
    ['nft', 'add', 'set', 'inet', 'any', 'held', '{ type ipv4_addr; }'],
    ['nft', 'add', 'element', 'inet', 'any', 'held', '{ 192.0.2.1 }'],
    ['nft', '-f', join(directory, 'many')],
    ['nft', 'delete', 'element', 'inet', 'any', 'held', '{ 192.0.2.1 }'],
    ['nft', 'flush', 'ruleset'],
  ] as const;
  const many = Array.from({ length: 20_000 }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
  writeFileSync(join(directory, 'many'), `add element inet any held { ${many.join(', ')} }\n`);
  const seen = [await count.read()];
  expect(seen[0]).toBeDefined();
  for (const command of changes) {
    await inside(...command);
    seen.push(await count.read());
    await inside('nft', 'list', 'tables');
    await inside('iptables-nft-save');
    expect(await count.read(), 'reading is no change').toBe(seen.at(-1));
  }
  expect(seen).toEqual([...new Set(seen)]);
});

test('differs when its process was ended or continued, and counts again', async () => {
  const first = await count.read();
  expect(first).toBeDefined();
  for (const signal of ['SIGKILL', 'SIGCONT'] as const) {
    const before = await count.read();
    const [pid] = await pids();
    process.kill(pid!, signal);
    await until('it is not stopped', async () => !isStopped(pid!));
    const after = await until('it counts', () => count.read());
    expect(after).not.toBe(before);
    await inside('iptables-nft', '-t', 'nat', '-N', signal);
    expect(await count.read()).not.toBe(after);
    expect((await pids()).length).toBe(1);
  }
});

test('leaves no process, and counts no more', async () => {
  await count.read();
  count.close();
  expect(await count.read()).toBeUndefined();
  await until('its process has ended', async () => (await pids()).length === 0);
});

test('is not known where no monitor runs', async () => {
  const none = new ChangeCount({ monitor: '/bin/false', setpriv: 'setpriv' }, () => performance.now());
  expect(await none.read()).toBeUndefined();
  none.close();
});

function isStopped(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') T ');
  } catch {
    return false;
  }
}

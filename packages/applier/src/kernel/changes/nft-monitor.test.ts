import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits, retries } from '../../limits.ts';
import { findTool } from '../tools.ts';
import { NftMonitor } from './nft-monitor.ts';
import { OwnProcesses } from './own-processes.ts';

/** When a monitor that ends asks for a comparison. */

const { monitorTrustMs } = limits;
const { leastMs: monitorRestartMs } = retries.monitor;
const soonMs = 150;
let directory: string;
let monitor: NftMonitor | undefined;
let doubts: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluiced-monitor-'));
  doubts = 0;
  Object.assign(limits, { monitorTrustMs: soonMs });
  Object.assign(retries.monitor, { leastMs: soonMs });
});
afterEach(() => {
  monitor?.close();
  Object.assign(limits, { monitorTrustMs });
  Object.assign(retries.monitor, { leastMs: monitorRestartMs });
  rmSync(directory, { recursive: true });
});

/** Starts a monitor whose program does one of these at each start, the last one again and again. */
function start(...runs: readonly [string, ...string[]]): NftMonitor {
  const [stdbuf, setpriv] = [findTool('stdbuf'), findTool('setpriv')];
  if (stdbuf === undefined || setpriv === undefined) throw new Error('stdbuf or setpriv is not installed');
  const program = join(directory, 'monitor');
  const cases = runs.map((run, at) => `${at === runs.length - 1 ? '*' : at}) ${run};;`).join('\n');
  const counter = join(directory, 'starts');
  const script = `#!/bin/sh
n=$(cat ${counter} 2>/dev/null || echo 0)
echo $((n + 1)) >${counter}
case $n in
${cases}
esac
`;
  writeFileSync(program, script);
  chmodSync(program, 0o755);
  const own = new OwnProcesses(true, () => performance.now());
  monitor = new NftMonitor(
    { monitor: program, stdbuf, setpriv },
    own,
    ({ isDoubt }) => void (doubts += isDoubt === true ? 1 : 0),
    () => true,
    () => performance.now(),
  );
  return monitor;
}

async function until(what: string, is: () => boolean): Promise<void> {
  for (let tries = 0; !is(); tries++) {
    if (tries > 500) throw new Error(`timed out, waiting until ${what}`);
    await sleep(10);
  }
}

const runs = 'exec sleep 60';
const overflows = `sleep ${(3 * soonMs) / 1000}; echo "error: No buffer space available" >&2; exit 1`;

test('a monitor that the kernel told too much asks for one comparison, when it runs again, and counts as one that tells', async () => {
  const { state } = start(overflows, runs);
  expect(state).toBe('away');
  await until('it runs', () => doubts === 1);
  await until('it has ended', () => monitor!.returnMs > performance.now());
  expect(doubts, 'not before it runs again').toBe(1);
  await until('it runs again', () => doubts === 2);
  expect([monitor?.state, monitor?.hasEverReported, monitor?.returnMs]).toEqual(['hears', true, -Infinity]);
});

test('a monitor that cannot be started again asks for a comparison then', async () => {
  start(`sleep ${(3 * soonMs) / 1000}`, 'exit 1');
  await until('it runs', () => doubts === 1);
  await until('the second one has ended', () => doubts === 2);
  expect([monitor?.state, monitor?.returnMs]).toEqual(['away', -Infinity]);
});

test('a monitor that never ran asks for nothing', async () => {
  start('exit 1');
  await sleep(3 * soonMs);
  expect([doubts, monitor?.state, monitor?.returnMs]).toEqual([0, 'away', -Infinity]);
});

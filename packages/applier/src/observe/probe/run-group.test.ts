import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import { toolEnvironment } from '../../kernel/command.ts';
import { limits } from '../../limits.ts';
import { childrenOf } from '../../testing/processes.fixture.ts';
import { runGroup } from './run-group.ts';

const shell = (script: string, timeoutMs = 5000) => runGroup('/bin/sh', ['-c', script], timeoutMs);
/** How a script ended, and whether at once: what it leaves behind sleeps longer. */
async function soon(script: string, timeoutMs?: number) {
  const startedMs = performance.now();
  const ran = await shell(script, timeoutMs);
  return { ...ran, isSoon: performance.now() - startedMs < 2500 };
}
/** Whether a process ends by itself, or has ended: init may be slow to take a dead one. */
async function isGone(pid: string): Promise<boolean> {
  const isAlive = (): boolean =>
    existsSync(`/proc/${pid}/stat`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  for (let look = 0; isAlive() && look < 50; look++) await sleep(20);
  return /^[0-9]+$/.test(pid) && !isAlive();
}

test('runs a command with the environment of tools, and returns its output', async () => {
  process.env['SLUICE_SECRET'] = 'x';
  const { stdout, ...ran } = await runGroup('/usr/bin/env', [], 5000);
  delete process.env['SLUICE_SECRET'];
  expect(ran).toMatchObject({ exitCode: 0, stderr: '' });
  expect(
    Object.fromEntries(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split('=')),
    ),
  ).toEqual(toolEnvironment);
});

test('kills a shell and its children at the timeout', async () => {
  const ran = await soon('sleep 12 & echo $!; wait; exit 1', 300);
  expect(ran).toMatchObject({ exitCode: undefined, why: 'timed out', isSoon: true });
  expect(await isGone(ran.stdout.trim())).toBe(true);
});

test('kills a command that ignores SIGTERM at the timeout', async () => {
  const ran = await soon("trap '' TERM INT HUP; while :; do sleep 0.1; done", 300);
  expect(ran).toMatchObject({ exitCode: undefined, why: 'timed out', isSoon: true });
});

test.each([0, 3])('returns exit code %i, and kills background processes of the command', async (code) => {
  const ran = await soon(`sleep 12 & echo $!; exit ${code}`);
  expect(ran).toMatchObject({ exitCode: code, isSoon: true });
  expect(await isGone(ran.stdout.trim())).toBe(true);
});

test('does not wait for a process that left the group with the output open', async () => {
  const ran = await soon('setsid sh -c "echo \\$\\$; exec sleep 12" & sleep 0.3; exit 0');
  process.kill(Number(ran.stdout.trim()), 'SIGKILL');
  expect(ran).toMatchObject({ exitCode: 0, isSoon: true });
});

test('kills a command with endless output', async () => {
  const ran = await soon('yes & yes', 5000);
  expect(ran).toMatchObject({ isSoon: true, why: expect.stringContaining('maxBuffer') });
  // Killed, or told by the closed pipe: whichever is faster.
  expect(ran.exitCode).not.toBe(0);
  expect(ran.stdout.length).toBeLessThanOrEqual(limits.probeOutputBytesMax);
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s to a process that does not listen ends it, and what its probes run',
  async (signal) => {
    const source = JSON.stringify(`${import.meta.dirname}/run-group.ts`);
    const script = `
    import { runGroup } from ${source};
    void runGroup('/bin/sh', ['-c', 'exec sleep 47'], 60_000);
    console.log(process.pid);`;
    const child = execa(process.execPath, ['--input-type=module-typescript', '-e', script], { reject: false });
    const { value } = await child.iterable()[Symbol.asyncIterator]().next();
    const [probe] = childrenOf(Number(value), 'sleep');
    child.kill(signal);
    expect((await child).signal).toBe(signal);
    expect(await isGone(String(probe))).toBe(true);
  },
);

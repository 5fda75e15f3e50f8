// @module-tag all
import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type TestMachine, until } from './machine.fixture.ts';
import {
  bootNode,
  bundleOf,
  configOf,
  install,
  mainPid,
  noNodeBecause,
  publish,
  onProbation,
  rulesOf,
  untilActive,
  statusOf,
  expectHealthy,
} from './node.fixture.ts';

/** systemd's handling of a daemon that hangs, dies, is stopped in the middle of a change, or has a tool that hangs. */

let machine: TestMachine;
let generation: number;
/** The pods of the Service: two others are a release, which needs probation. */
let pair: readonly [number, number] = [1, 2];

beforeAll(async () => {
  if (noNodeBecause) return;
  machine = await bootNode('nft', {
    'etc/sluice/sluiced.yaml': configOf('nft', { probation: '{seconds: 3}', scanIntervalSeconds: '3600' }),
    // The shipped unit has a minute, a minute and a half, and two seconds here.
    'etc/systemd/system/sluiced.service.d/soon.conf': '[Service]\nWatchdogSec=4\nTimeoutStopSec=10\nRestartSec=100ms\n',
  });
  await install(machine);
  await untilActive(machine, 1);
});
afterAll(() => machine?.[Symbol.asyncDispose]());
beforeEach(async () => {
  if (noNodeBecause) return;
  generation = (await statusOf(machine)).generation ?? 0;
});
afterEach(async () => {
  if (noNodeBecause) return;
  await machine.must('systemctl', 'start', 'sluiced.service');
  // After each test the published bundle must be confirmed, and the node healthy.
  await untilActive(machine, generation);
  await expectHealthy(machine);
});

/** Publishes a release. @returns the previous rules */
async function release(): Promise<string> {
  const before = await rulesOf(machine, 'nft');
  pair = pair[0] === 1 ? [3, 4] : [1, 2];
  publish(machine, bundleOf(pair));
  generation++;
  return before;
}

const restarts = async (): Promise<number> => Number(await machine.property('sluiced.service', 'NRestarts'));

/** Waits until another process than before is ready. */
async function restarted(pid: string): Promise<void> {
  await until('a new process', async () => {
    const output = await machine.must('systemctl', 'show', '-p', 'ActiveState', '-p', 'MainPID', 'sluiced.service');
    return output.includes('ActiveState=active') && !output.split('\n').includes(`MainPID=${pid}`);
  });
}

/** Replaces a tool by a script. @returns a function that restores the tool */
function replaceTool(script: string): () => void {
  let isReal = false;
  const restore = (): void => {
    if (!isReal) machine.rename(`${tool}.real`, tool);
    isReal = true;
  };
  rmSync(`${machine.root}/run/at-work`, { force: true });
  machine.rename(tool, `${tool}.real`);
  machine.write(tool, `#!/bin/sh\ntouch /run/at-work\n${script}\n`, 0o755);
  onTestFinished(restore);
  return restore;
}
const tool = '/usr/sbin/iptables-nft-restore';
const toolRunning = async (): Promise<unknown> =>
  until('a tool at work', async () => (await machine.run('rm', '/run/at-work')).exitCode === 0);

test('the watchdog restarts a daemon that hangs; rules stay', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [pid, before, count] = [await mainPid(machine), await rulesOf(machine, 'nft'), await restarts()];
  await machine.must('kill', '-STOP', pid);
  await restarted(pid);
  expect(await restarts()).toBe(count + 1);
  expect(await machine.journal('_PID=1')).toContain('sluiced.service: Watchdog timeout');
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('the watchdog does not end a daemon that works', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [pid, count] = [await mainPid(machine), await restarts()];
  await machine.must('sleep', '9');
  expect({ pid: await mainPid(machine), count: await restarts() }).toEqual({ pid, count });
});

test('a daemon that is killed during probation is restarted, rolls the release back, and retries it', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  await release();
  await onProbation(machine);
  const pid = await mainPid(machine);
  await machine.must('kill', '-KILL', pid);
  await restarted(pid);
  await untilActive(machine, generation);
  expect(await machine.must('sluiced', 'history')).toMatch(/rolled-back.*the process ended in the middle/);
});

test('a daemon that is stopped during probation rolls the release back first, and the next one retries it', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const before = await release();
  await onProbation(machine);
  await machine.must('systemctl', 'stop', 'sluiced.service');
  expect(await machine.property('sluiced.service', 'Result')).toBe('success');
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('a daemon that cannot start is restarted repeatedly, and recovers when it can', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [before, file] = [await rulesOf(machine, 'nft'), '/etc/sluice/sluiced.yaml'];
  const config = machine.read(file);
  machine.write(file, 'node: [');
  await machine.run('systemctl', 'restart', 'sluiced.service');
  // systemd's own limit is 5, that of many units 10.
  await until('many restarts', async () => (await restarts()) > 11);
  expect(await machine.journal('-u', 'sluiced.service')).toContain('NODE_CONFIG_INVALID');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  machine.write(file, config);
  await restarted('0');
});

test('a reload scans every file of the directory at once', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const path = '/etc/sluice/rendered/profiles/default/services/shop/web.iptables';
  const [text, before] = [machine.read(path), await rulesOf(machine, 'nft')];
  const alarms = async (): Promise<string> => JSON.stringify((await statusOf(machine)).daemon);
  machine.write(path, `${text}# edited by hand\n`);
  await machine.must('systemctl', 'reload', 'sluiced.service');
  await until('an alarm', async () => (await alarms()).includes('BUNDLE_'));
  machine.write(path, text);
  await machine.must('systemctl', 'reload', 'sluiced.service');
  await until('the end of the alarm', async () => !(await alarms()).includes('BUNDLE_'));
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('a daemon that is stopped waits for a running tool, and does not quarantine the release', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  replaceTool(`sleep 1; exec /usr/sbin/xtables-nft-multi iptables-restore "$@"`);
  const before = await release();
  const invocation = await machine.property('sluiced.service', 'InvocationID');
  await toolRunning();
  await machine.must('systemctl', 'stop', 'sluiced.service');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  const said = await machine.journal(`_SYSTEMD_INVOCATION_ID=${invocation}`);
  expect(said).toContain('stopping: a release on probation');
  expect(said).not.toContain('the tool was killed');
  expect((await statusOf(machine)).quarantined).toEqual({});
});

test.for(['stopped', 'killed'] as const)(
  'a tool that hangs and ignores signals ends with a daemon that is %s',
  async (how, context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const restore = replaceTool("trap '' TERM INT HUP\nwhile :; do sleep 1; done");
    await release();
    await toolRunning();
    restore();
    const pid = await mainPid(machine);
    const hanging = await machine.must('pgrep', '-f', `^/bin/sh ${tool}`);
    if (how === 'stopped') await machine.run('systemctl', 'stop', 'sluiced.service');
    else await machine.must('kill', '-KILL', pid);
    if (how === 'killed') await restarted(pid);
    expect((await machine.run('kill', '-0', ...hanging.split('\n'))).stderr).toContain('No such process');
  },
);

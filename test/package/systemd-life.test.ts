// @module-tag all
import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type Machine, until } from './machine.fixture.ts';
import {
  bootNode,
  bundleOf,
  configOf,
  install,
  mainPid,
  noNodeBecause,
  offer,
  onProbation,
  rulesOf,
  standing,
  statusOf,
  untroubled,
} from './node.fixture.ts';

/** What systemd does with a daemon that hangs, dies, is stopped in the middle of a change, or has a tool that hangs. */

let machine: Machine;
let generation: number;
/** Which pods the Service has: two others are a release, which is tried. */
let pair: readonly [number, number] = [1, 2];

beforeAll(async () => {
  if (noNodeBecause) return;
  machine = await bootNode('nft', {
    'etc/sluice/sluiced.yaml': configOf('nft', { probation: '{seconds: 3}', scanIntervalSeconds: '3600' }),
    // The unit as it is shipped waits for a minute, for a minute and a half, and for two seconds.
    'etc/systemd/system/sluiced.service.d/soon.conf': '[Service]\nWatchdogSec=4\nTimeoutStopSec=10\nRestartSec=100ms\n',
  });
  await install(machine);
  await standing(machine, 1);
});
afterAll(() => machine?.[Symbol.asyncDispose]());
beforeEach(async () => {
  if (noNodeBecause) return;
  generation = (await statusOf(machine)).generation ?? 0;
});
afterEach(async () => {
  if (noNodeBecause) return;
  await machine.must('systemctl', 'start', 'sluiced.service');
  // Whatever a test did, what it offered is confirmed in the end, and nobody is called.
  await standing(machine, generation);
  await untroubled(machine);
});

/** Offers a release. @returns the rules from before */
async function release(): Promise<string> {
  const before = await rulesOf(machine, 'nft');
  pair = pair[0] === 1 ? [3, 4] : [1, 2];
  offer(machine, bundleOf(pair));
  generation++;
  return before;
}

const restarts = async (): Promise<number> => Number(await machine.property('sluiced.service', 'NRestarts'));

/** Waits until another process than before says that it is ready. */
async function anew(pid: string): Promise<void> {
  await until('a new process', async () => {
    const output = await machine.must('systemctl', 'show', '-p', 'ActiveState', '-p', 'MainPID', 'sluiced.service');
    return output.includes('ActiveState=active') && !output.split('\n').includes(`MainPID=${pid}`);
  });
}

/** Puts a script in the place of a tool. @returns a function that puts the tool back */
function replaceTool(script: string): () => void {
  let isReal = false;
  const putBack = (): void => {
    if (!isReal) machine.rename(`${tool}.real`, tool);
    isReal = true;
  };
  rmSync(`${machine.root}/run/at-work`, { force: true });
  machine.rename(tool, `${tool}.real`);
  machine.write(tool, `#!/bin/sh\ntouch /run/at-work\n${script}\n`, 0o755);
  onTestFinished(putBack);
  return putBack;
}
const tool = '/usr/sbin/iptables-nft-restore';
const atWork = async (): Promise<unknown> =>
  until('a tool at work', async () => (await machine.run('rm', '/run/at-work')).exitCode === 0);

test('a daemon that hangs is ended by the watchdog and started again; rules stay as they are', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [pid, before, count] = [await mainPid(machine), await rulesOf(machine, 'nft'), await restarts()];
  await machine.must('kill', '-STOP', pid);
  await anew(pid);
  expect(await restarts()).toBe(count + 1);
  expect(await machine.journal('_PID=1')).toContain('sluiced.service: Watchdog timeout');
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('one that lives is left alone by the watchdog', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [pid, count] = [await mainPid(machine), await restarts()];
  await machine.must('sleep', '9');
  expect({ pid: await mainPid(machine), count: await restarts() }).toEqual({ pid, count });
});

test('one that is killed in the middle of a trial is started again, takes the release back, and tries it once more', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  await release();
  await onProbation(machine);
  const pid = await mainPid(machine);
  await machine.must('kill', '-KILL', pid);
  await anew(pid);
  await standing(machine, generation);
  expect(await machine.must('sluiced', 'history')).toMatch(/rolled-back.*the process ended in the middle/);
});

test('one that is stopped in the middle of a trial takes the release back first, and the next one tries it again', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const before = await release();
  await onProbation(machine);
  await machine.must('systemctl', 'stop', 'sluiced.service');
  expect(await machine.property('sluiced.service', 'Result')).toBe('success');
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('one that cannot start is started again and again, and comes back by itself when it can', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [before, file] = [await rulesOf(machine, 'nft'), '/etc/sluice/sluiced.yaml'];
  const config = machine.read(file);
  machine.write(file, 'node: [');
  await machine.run('systemctl', 'restart', 'sluiced.service');
  // systemd's own limit is 5, that of many units 10.
  await until('many tries', async () => (await restarts()) > 11);
  expect(await machine.journal('-u', 'sluiced.service')).toContain('NODE_CONFIG_INVALID');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  machine.write(file, config);
  await anew('0');
});

test('a reload looks at the directory at once, into every file', async (context) => {
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

test('a tool that is at work when the daemon is asked to end is waited for, and the release is not blamed', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  replaceTool(`sleep 1; exec /usr/sbin/xtables-nft-multi iptables-restore "$@"`);
  const before = await release();
  const invocation = await machine.property('sluiced.service', 'InvocationID');
  await atWork();
  await machine.must('systemctl', 'stop', 'sluiced.service');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  const said = await machine.journal(`_SYSTEMD_INVOCATION_ID=${invocation}`);
  expect(said).toContain('stopping: a release on probation');
  expect(said).not.toContain('the tool was killed');
  expect((await statusOf(machine)).quarantined).toEqual({});
});

test.for(['stopped', 'killed'] as const)(
  'a tool that hangs and hears no signal ends with a daemon that is %s',
  async (how, context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const putBack = replaceTool("trap '' TERM INT HUP\nwhile :; do sleep 1; done");
    await release();
    await atWork();
    putBack();
    const pid = await mainPid(machine);
    const hanging = await machine.must('pgrep', '-f', `^/bin/sh ${tool}`);
    if (how === 'stopped') await machine.run('systemctl', 'stop', 'sluiced.service');
    else await machine.must('kill', '-KILL', pid);
    if (how === 'killed') await anew(pid);
    expect((await machine.run('kill', '-0', ...hanging.split('\n'))).stderr).toContain('No such process');
  },
);

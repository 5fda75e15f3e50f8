// @module-tag all
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { notScratch } from '../../packages/applier/src/kernel/scratch/serve.ts';
import { type TestMachine, until } from './machine.fixture.ts';
import {
  bootNode,
  bundleOf,
  configOf,
  install,
  noNodeBecause,
  publish,
  rulesOf,
  untilActive,
  statusOf,
} from './node.fixture.ts';

/** Rehearsals under systemd: each in a unit of its own, with an isolated network. */

/** Everything that the other end of a connection sends. */
async function receive(connection: Socket): Promise<string> {
  let text = '';
  connection.on('error', () => {});
  connection.setEncoding('utf8').on('data', (part: string) => (text += part));
  await new Promise((done) => connection.once('close', done));
  return text;
}

const instances = 'sluiced-rehearse@*';
const list = ['list-units', '--all', '--plain', '--no-legend', instances] as const;

describe.each(['nft', 'legacy'] as const)('a node on %s', (backend) => {
  let machine: TestMachine;
  const alarms = async (): Promise<readonly string[]> => {
    const body = (await machine.get('http://127.0.0.1:10276/status')) ?? '{}';
    return Object.keys((JSON.parse(body) as { alarms?: object }).alarms ?? {});
  };
  const rehearsed = async (): Promise<number> =>
    (await machine.journal('-u', instances)).match(/^the rules were loaded in a scratch namespace$/gm)?.length ?? 0;

  /**
   * Waits until the rules contain a text and no change is in progress. A failed rehearsal is retried after a back-off of many times its
   * duration.
   */
  const settledWith = (text: string): Promise<unknown> =>
    until(
      text,
      async () => (await statusOf(machine)).open === null && (await rulesOf(machine, backend)).includes(text),
      60_000,
    );

  beforeAll(async () => {
    if (noNodeBecause) return;
    machine = await bootNode(backend, { 'etc/sluice/sluiced.yaml': configOf(backend) });
    await install(machine);
    await untilActive(machine, 1);
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  test('rehearses the first bundle in an instance that starts with sluiced.service and leaves nothing', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await rehearsed()).toBe(1);
    expect(await machine.journal('-u', 'sluiced.service')).toMatch(/^info: rehearsed .*\bin=unit\b/m);
    expect(await machine.must('systemctl', 'is-active', 'sluiced-rehearse.socket')).toBe('active');
    expect(await machine.must('stat', '-c', '%a %U %F', '/run/sluice/rehearse.sock')).toBe('600 root socket');
    expect(await machine.must('systemctl', ...list)).toBe('');
    expect(await rulesOf(machine, backend)).toContain('SLU-SVC-');
  });

  test('endpoint updates need no rehearsal, after a start neither', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    await machine.must('systemctl', 'restart', 'sluiced.service');
    // Endpoint 3 has the address 10.244.0.4.
    publish(machine, bundleOf([1, 2, 3]));
    await settledWith('10.244.0.4');
    expect(await rehearsed()).toBe(1);
  });

  test('the socket outlives the daemon, and serves any client', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    await machine.must('systemctl', 'stop', 'sluiced.service');
    expect(await machine.must('stat', '-c', '%F', '/run/sluice/rehearse.sock')).toBe('socket');
    expect(await machine.must('sluiced', 'preflight', '--verbose')).toContain(
      'rehearsals (in sluiced-rehearse@.service)',
    );
    await machine.must('systemctl', 'start', 'sluiced.service');
  });

  test('with the socket stopped, new kinds of rules wait until it is started again', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    await settledWith('10.244.0.4');
    await machine.must('systemctl', 'stop', 'sluiced-rehearse.socket');
    const before = await rulesOf(machine, backend);
    // Its REJECT is the first one.
    publish(machine, bundleOf([], { services: { 'shop/web': [1, 2, 3], 'shop/idle': [] } }));
    await until('the alarm', async () => (await alarms()).includes('NODE_CANNOT_REHEARSE'));
    expect(await rulesOf(machine, backend)).toBe(before);
    await machine.must('systemctl', 'start', 'sluiced-rehearse.socket');
    await settledWith('shop/idle');
    await until('the end of the alarm', async () => (await alarms()).length === 0);
    expect(await rehearsed()).toBe(3);
  });

  test('systemd accepts every line of these units', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await machine.journal('-u', instances, '-u', 'sluiced-rehearse.socket', '-p', 'warning')).toBe('');
  });

  test('open connections get four instances, each sandboxed, which end with them', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const connections = [1, 2, 3, 4, 5].map(() => connect(`${machine.root}/run/sluice/rehearse.sock`));
    const ends = connections.map(receive);
    // systemd accepts the fifth and closes it at once.
    expect(await Promise.race(ends)).toBe('');
    const units = await until('four instances', async () => {
      const names = (await machine.must('systemctl', ...list)).split('\n').map((line) => line.split(' ')[0] ?? '');
      return names.length === 4 && names;
    });
    const pid = await machine.property(units[0] ?? '', 'MainPID');
    // Before its exec the process is systemd's, with its name in brackets.
    await until('the program', async () => !machine.read(`/proc/${pid}/status`).startsWith('Name:\t('));
    const inside = async (...command: readonly string[]): Promise<string> => (await machine.run(...command)).stdout;
    for (const line of ['CapBnd:\t0000000000003000', 'CapEff:\t0000000000003000', 'NoNewPrivs:\t1', 'Seccomp:\t2'])
      expect(machine.read(`/proc/${pid}/status`).split('\n')).toContain(line);
    expect(notScratch(machine.read(`/proc/${pid}/net/dev`))).toBeUndefined();
    expect(await inside('readlink', `/proc/${pid}/ns/net`)).not.toBe(await inside('readlink', '/proc/1/ns/net'));
    expect(await inside('ls', '-A', '/var/lib/sluice')).not.toBe('');
    // The rest of /run is systemd's own, for mounts.
    for (const [path, seen] of Object.entries({ '/var/lib/sluice': '', '/etc/sluice': '', '/run': 'systemd' }))
      expect([path, await inside('ls', '-A', `/proc/${pid}/root${path}`)]).toEqual([path, seen]);
    for (const connection of connections) connection.destroy();
    await until('the end of all instances', async () => (await inside('systemctl', ...list)) === '');
  });
});

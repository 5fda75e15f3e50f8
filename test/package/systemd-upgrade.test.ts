// @module-tag all
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newer, newerThan } from './newer.fixture.ts';
import type { TestMachine } from './machine.fixture.ts';
import { bootNode, install, mainPid, noNodeBecause, rulesOf, untilActive, vip } from './node.fixture.ts';
import { artefact } from './unpack.fixture.ts';

/** The package's life cycle on a machine where its units run: traffic is forwarded through every step of dpkg. */

let machine: TestMachine;
let before: string;
beforeAll(async () => {
  if (noNodeBecause) return;
  machine = await bootNode('nft');
  await install(machine);
  await untilActive(machine, 1);
  before = await rulesOf(machine, 'nft');
  newerThan(artefact('_amd64.deb'), join(machine.root, 'newer.deb'));
});
afterAll(() => machine?.[Symbol.asyncDispose]());

/** Our units that systemd knows, and their states. */
const units = async (): Promise<string> =>
  machine.must('systemctl', 'list-units', '--all', '--plain', '--no-legend', 'sluice*');

test('an upgrade restarts the daemon with the new version, and no other unit; nothing is lost', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const [pid, state] = [await mainPid(machine), machine.list('/var/lib/sluice/store')];
  expect(await install(machine, '/newer.deb')).toMatchObject({ exitCode: 0 });
  expect(await machine.must('dpkg-query', '-W', '-f', '${Version}', 'sluice')).toBe(newer);
  expect(await mainPid(machine)).not.toBe(pid);
  const process = `/proc/${await mainPid(machine)}`;
  // Not the deleted file of the version before. Tools that list processes show the name of the link.
  expect(await machine.must('readlink', `${process}/exe`)).toBe('/usr/bin/sluice');
  expect(await machine.must('cat', `${process}/comm`)).toBe('sluiced');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  await untilActive(machine, 1);
  expect(machine.list('/var/lib/sluice/store')).toEqual(state);
  expect(await machine.must('systemctl', 'is-enabled', 'sluiced.service', 'sluiced-boot.service')).toMatch(
    /^enabled\nenabled$/,
  );
  expect(await machine.must('systemctl', 'is-system-running')).toBe('running');
});

test('an upgrade does not start a daemon that an operator stopped', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  await machine.must('systemctl', 'stop', 'sluiced.service');
  const { exitCode, stdout } = await install(machine, '/newer.deb');
  expect({ exitCode, stdout }).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('sluiced is not running'),
  });
  expect((await machine.run('systemctl', 'is-active', 'sluiced.service')).stdout).toBe('inactive');
  // Its unit is enabled, so that it is missing.
  expect(await machine.run('sluiced', 'status')).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining('sluiced.service is enabled'),
  });
  expect(await rulesOf(machine, 'nft')).toBe(before);
  await machine.must('systemctl', 'start', 'sluiced.service');
});

test('after a removal rules keep forwarding and no process is left', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  expect((await machine.run('dpkg', '-r', 'sluice')).exitCode).toBe(0);
  expect((await machine.run('pgrep', '-f', 'sluiced')).stdout).toBe('');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
});

test('a reinstallation continues from the state of the node', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  expect((await install(machine)).exitCode).toBe(0);
  await machine.must('systemctl', 'enable', '--now', 'sluiced-boot.service', 'sluiced.service');
  await untilActive(machine, 1);
  expect(await rulesOf(machine, 'nft')).toBe(before);
});

test('a purge leaves neither unit, process, file nor directory; rules stay until the next boot', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  expect((await machine.run('dpkg', '-P', 'sluice')).exitCode).toBe(0);
  expect(await units()).toBe('');
  expect((await machine.run('pgrep', '-f', 'sluiced')).stdout).toBe('');
  expect(await rulesOf(machine, 'nft')).toBe(before);
  const places = ['/etc', '/usr', '/var', '/run', '/opt', '/root'];
  const left = await machine.must('find', ...places, '-xdev', '-iname', '*sluice*', '-not', '-path', '/var/lib/dpkg/*');
  expect(left).toBe('');
  expect(await machine.must('systemctl', 'is-system-running')).toBe('running');
  await machine.powerOff();
  await machine.start();
  expect(await rulesOf(machine, 'nft')).not.toContain('SLU');
});

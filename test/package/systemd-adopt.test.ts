// @module-tag all
import { beforeAll, expect, test } from 'vitest';
import { exitCodes } from '../../packages/applier/src/ports/outcome.ts';
import { kubeProxy } from '../parity/binaries.ts';
import type { Built } from '../parity/build.ts';
import { type MachineFiles, ProxyMachine, unit, unitText } from './kube-proxy-unit.fixture.ts';
import { type TestMachine, until } from './machine.fixture.ts';
import { noNodeBecause, rulesOf, vip } from './node.fixture.ts';

/** The real kube-proxy as a unit of a real systemd: `sluiced adopt` stops it, nothing starts it, and `--undo` gives it back as it was. */

let built: Built;
beforeAll(async () => {
  built = noNodeBecause === '' ? await kubeProxy() : { lack: noNodeBecause };
}, 3_600_000);

const program = (): string => ('path' in built ? built.path : '');
const whyNot = (): string => ('lack' in built ? built.lack : '');
const adoptUnit = ['--unit', unit, '--without-parity'] as const;

/** Waits for all jobs of systemd. */
const settled = (machine: TestMachine): Promise<unknown> =>
  until('the end of all jobs', async () => (await machine.run('systemctl', 'list-jobs')).stdout.includes('No jobs'));

/** A unit file that is written again, as an upgrade of its package does. */
const newUnitFile = `file=$(systemctl show --value -p FragmentPath ${unit}) && cp "$file" "$file.new" && mv "$file.new" "$file"`;

/** What may bring a unit back: orders, other units that want it, reloads, and systemd itself. */
const attempts: readonly (readonly string[])[] = [
  ['systemctl', 'start', unit],
  ['systemctl', 'restart', unit],
  ['systemctl', 'reload-or-restart', unit],
  ['systemctl', 'enable', '--now', unit],
  ['sh', '-c', newUnitFile],
  ['systemctl', 'daemon-reload'],
  ['systemctl', 'restart', unit],
  ['systemctl', 'start', 'kubelet.service'],
  ['systemctl', 'restart', 'kubelet.service'],
  ['systemctl', 'start', 'multi-user.target'],
  ['systemctl', 'daemon-reexec'],
  ['systemctl', 'start', unit],
];

async function expectAway(proxy: ProxyMachine, after: string): Promise<void> {
  const { machine } = proxy;
  await settled(machine);
  const seen = { after, active: await machine.property(unit, 'ActiveState'), processes: await proxy.proxies() };
  expect(seen).toEqual({ after, active: 'inactive', processes: '' });
}

const kubelet = `[Unit]
Requires=${unit}
After=${unit}
[Service]
ExecStart=/bin/sleep infinity
`;

/** Where the unit file of kube-proxy is, what else there is, and what starts it. */
const homes: readonly (readonly [title: string, files: MachineFiles, enabled: readonly string[]])[] = [
  [
    'of the administrator, with a drop-in, which the kubelet requires',
    {
      'etc/systemd/system/kube-proxy.service': unitText,
      'etc/systemd/system/kube-proxy.service.d/override.conf': '[Service]\nEnvironment=SITE=north\n',
      'etc/systemd/system/kubelet.service': kubelet,
    },
    [unit, 'kubelet.service'],
  ],
  [
    'of a package, disabled, which the kubelet wants',
    {
      'usr/lib/systemd/system/kube-proxy.service': unitText,
      'etc/systemd/system/kubelet.service': kubelet.replace('Requires=', 'Wants='),
    },
    ['kubelet.service'],
  ],
];

test.for(homes)('a unit %s', { timeout: 300_000 }, async ([, files, enabled], context) => {
  if (whyNot() !== '') return context.skip(whyNot());
  await using proxy = await ProxyMachine.boot(program(), files, enabled);
  const { machine } = proxy;
  const [before, rules] = [await proxy.state(), await rulesOf(machine, 'nft')];
  const kubeletPid = await machine.property('kubelet.service', 'MainPID');
  await machine.must('systemctl', 'enable', 'sluiced-boot.service');
  const there = await proxy.adopt(...adoptUnit);
  expect(there).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
  expect(await rulesOf(machine, 'nft')).not.toContain('KUBE-SVC-');
  await expectAway(proxy, 'adopt');
  expect(await machine.property('kubelet.service', 'MainPID')).toBe(kubeletPid);
  expect((await machine.run('systemctl', 'is-enabled', unit)).stdout).toBe(before.enabled);
  for (const attempt of attempts) {
    await machine.must(...attempt);
    await expectAway(proxy, attempt.join(' '));
  }
  if (before.enabled === 'disabled') await machine.must('systemctl', 'disable', unit);
  await proxy.bootAgain();
  await expectAway(proxy, 'a boot');
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  proxy.startApi();
  const back = await proxy.adopt('--undo', '--wait', '40');
  expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('undone: kube-proxy serves') });
  await machine.must('systemctl', 'disable', 'sluiced-boot.service');
  expect(await proxy.state()).toEqual(before);
  expect((await rulesOf(machine, 'nft')).split('\n').toSorted()).toEqual(rules.split('\n').toSorted());
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
});

test('after a boot without an API server an undo brings the rules of generation 0 back, and kube-proxy renews them later', {
  timeout: 300_000,
}, async (context) => {
  if (whyNot() !== '') return context.skip(whyNot());
  const files = { 'etc/systemd/system/kube-proxy.service': unitText };
  await using proxy = await ProxyMachine.boot(program(), files, [unit]);
  const { machine } = proxy;
  const rules = await rulesOf(machine, 'nft');
  await machine.must('systemctl', 'enable', 'sluiced-boot.service');
  expect(await proxy.adopt(...adoptUnit)).toMatchObject({ exitCode: 0 });
  await proxy.bootAgain();
  const back = await proxy.adopt('--undo', '--wait', '1');
  expect(back).toMatchObject({ exitCode: 1, stdout: expect.stringContaining('those of generation 0 serve') });
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  expect(await rulesOf(machine, 'nft')).not.toContain('SLUICE');
  proxy.startApi();
  const sorted = (text: string): readonly string[] => text.split('\n').toSorted();
  await until("kube-proxy's own rules", async () => (await rulesOf(machine, 'nft')).includes('nfacct'), 60_000);
  expect(sorted(await rulesOf(machine, 'nft'))).toEqual(sorted(rules));
});

test('a removal names the adoption, and a purge lets kube-proxy serve from the next boot on', {
  timeout: 300_000,
}, async (context) => {
  if (whyNot() !== '') return context.skip(whyNot());
  const files = { 'etc/systemd/system/kube-proxy.service': unitText };
  await using proxy = await ProxyMachine.boot(program(), files, [unit]);
  const { machine } = proxy;
  const before = await proxy.state();
  expect(await proxy.adopt(...adoptUnit)).toMatchObject({ exitCode: 0 });
  const rules = await rulesOf(machine, 'nft');
  expect(await machine.run('dpkg', '--remove', 'sluice')).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/this node was moved from kube-proxy.*[^]*sluiced adopt --undo/),
  });
  await expectAway(proxy, 'a removal');
  expect(await rulesOf(machine, 'nft')).toBe(rules);
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  expect(await machine.run('dpkg', '--purge', 'sluice')).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(`${unit} may start again: it serves from the next boot on`),
  });
  await expectAway(proxy, 'a purge');
  expect(await rulesOf(machine, 'nft')).toBe(rules);
  await proxy.bootAgain();
  proxy.startApi();
  await proxy.untilWritten();
  expect(await rulesOf(machine, 'nft')).not.toContain('SLU');
  expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  expect(await proxy.state()).toEqual(before);
});

/** Units that cannot be stopped alone or kept away, by a file that makes them so. */
const refused: readonly (readonly [file: string, text: string, why: string])[] = [
  [
    'etc/systemd/system/kubelet.service',
    kubelet.replace('Requires=', 'BindsTo='),
    `BindsTo= binds kubelet.service to ${unit}, and would stop it, too`,
  ],
  [
    'etc/systemd/system/kube-proxy.service.d/zz-site.conf',
    '[Unit]\nConditionPathExists=\n',
    'zz-site.conf removes all conditions',
  ],
];

test('a unit that cannot be stopped alone, or not be kept away, is refused, and nothing is touched', {
  timeout: 300_000,
}, async (context) => {
  if (whyNot() !== '') return context.skip(whyNot());
  const files = { 'etc/systemd/system/kube-proxy.service': unitText };
  await using proxy = await ProxyMachine.boot(program(), files, [unit]);
  const { machine } = proxy;
  const rules = await rulesOf(machine, 'nft');
  for (const [file, text, why] of refused) {
    machine.write(`/${file}`, text);
    await machine.must('systemctl', 'daemon-reload');
    if (file.endsWith('.service')) await machine.must('systemctl', 'start', 'kubelet.service');
    const before = await proxy.state();
    const pid = await proxy.proxies();
    const refusal = await proxy.adopt(...adoptUnit);
    expect(refusal).toMatchObject({ exitCode: exitCodes.refused, stderr: expect.stringContaining(why) });
    expect(await proxy.state()).toEqual(before);
    expect(await proxy.proxies()).toBe(pid);
    expect(await rulesOf(machine, 'nft')).toBe(rules);
    await machine.must('rm', `/${file}`);
    await machine.must('systemctl', 'daemon-reload');
  }
});

// @module-tag all
import { join } from 'node:path';
import { once } from 'node:events';
import { execa } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestMachine, until } from './machine.fixture.ts';
import { bootNode, configOf, install, noNodeBecause, statusOf } from './node.fixture.ts';

/** `sluice watch` in its unit, and a sluiced that applies its bundles. */

const unit = 'sluice-watch.service';
const bundle = '/var/lib/sluice-watch/rendered';
let machine: TestMachine;
let api: ReturnType<typeof startApi> | undefined;
let account: string;

beforeAll(async () => {
  if (noNodeBecause) return;
  machine = await bootNode('nft');
  await install(machine);
  // As the comment in the unit says.
  await machine.must('useradd', '--system', '--no-create-home', 'sluice');
  await machine.must('cp', '/usr/share/sluice/sluice-watch.service', '/etc/systemd/system/');
  await machine.must('systemctl', 'daemon-reload');
  account = await machine.must('id', '-u', 'sluice');
});
afterAll(async () => {
  api?.stdin.end();
  await api;
  await machine?.[Symbol.asyncDispose]();
});

/** An API server in the machine's network. */
function startApi() {
  const [file, args] = machine.inNetwork(process.execPath, join(import.meta.dirname, 'apiserver.ts'));
  return execa(file, args, { reject: false, stdin: 'pipe', stderr: 'inherit' });
}

const written = async (): Promise<string> => {
  const { stdout } = await machine.run('find', `${bundle}/profiles`, '-path', '*/services/*', '-type', 'f');
  return stdout;
};

test('without a kubeconfig it reports that and retries', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  await machine.run('systemctl', 'start', unit);
  expect(await until('a complaint', async () => /kubeconfig/.exec(await machine.journal('-u', unit)))).toBeTruthy();
  await until('another try', async () => (await machine.property(unit, 'NRestarts')) !== '0');
  expect(await machine.journal('-u', unit)).toMatch(/Cannot read .*\/etc\/sluice\/kubeconfig/);
});

test('with one it renders the cluster, and follows it', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const started = startApi();
  api = started;
  const [kubeconfig] = (await once(started.stdout, 'data')) as [Buffer];
  machine.write('/etc/sluice/kubeconfig', kubeconfig.toString('utf8'), 0o600);
  await machine.must('chown', 'sluice', '/etc/sluice/kubeconfig');
  await machine.must('systemctl', 'restart', unit);
  await until('a bundle', async () => (await written()).includes('/shop/a.iptables'));
  started.stdin.write('more');
  expect(await until('the other Service', async () => (await written()).includes('/shop/b.iptables'))).toBe(true);
  expect(await machine.must('systemctl', 'is-active', unit)).toBe('active');
});

test('it has no capability, cannot gain one, and has a system call filter', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const status = machine.read(`/proc/${await machine.property(unit, 'MainPID')}/status`);
  const wanted = [`Uid:\t${account}\t${account}\t${account}\t${account}`, 'CapBnd:\t0000000000000000'];
  for (const line of [...wanted, 'NoNewPrivs:\t1', 'Seccomp:\t2']) expect(status.split('\n')).toContain(line);
  expect(await machine.journal('_PID=1', '-p', 'warning')).not.toMatch(/ignoring|Unknown/);
});

test('sluiced trusts the directory of this account only once its config names it', async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const alarms = async (): Promise<string> => JSON.stringify((await statusOf(machine)).daemon);
  const look = async (more: Readonly<Record<string, string>>): Promise<void> => {
    machine.write('/etc/sluice/sluiced.yaml', configOf('nft', { bundle, probes: '[]', ...more }));
    await machine.must('systemctl', 'restart', 'sluiced.service');
  };
  await look({});
  await until('a refusal', async () => (await alarms()).includes('BUNDLE_UNTRUSTED'));
  await look({ bundleOwner: account });
  expect(await until('a look', async () => /NODE_[A-Z_]+|"alarms":\{\}/.exec(await alarms()))).toBeTruthy();
  expect(await alarms()).not.toContain('BUNDLE_');
});

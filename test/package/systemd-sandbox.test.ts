// @module-tag all
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestMachine, type ProgramResult, until } from './machine.fixture.ts';
import {
  bootNode,
  configOf,
  install,
  mainPid,
  noNodeBecause,
  rulesOf,
  untilActive,
  statusOf,
  vip,
} from './node.fixture.ts';

/** The package on a Debian with systemd: its units run as they are shipped, and work within their hardening. */

const pry = readFileSync(join(import.meta.dirname, 'pry.sh'), 'utf8');
const probes = `
  - {name: web, http: "${vip}", attempts: 3, intervalSeconds: 0.2, timeoutSeconds: 1}
  - {name: pry, exec: [/bin/sh, -c, "/bin/sh /opt/pry.sh >/run/sluice/prying && mv /run/sluice/prying /run/sluice/pried"]}`;

/** Makes a key and a release signed with it. */
const releasing = `set -e
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f /root/releases
echo "alice@example.com namespaces=\\"sluice-release\\" $(cut -d' ' -f1,2 /root/releases.pub)" >/etc/sluice/allowed_signers
sluice release /etc/sluice/rendered --serial 1 --source 0123456789abcdef0123456789abcdef01234567 -o "$1"
sluice sign "$1" --key /root/releases
sluiced keygen >/etc/sluice/allowed_receipts
`;

describe.each(['nft', 'legacy'] as const)('installed on a node with a config and a bundle, on %s', (backend) => {
  let machine: TestMachine;
  let receive: ProgramResult;
  beforeAll(async () => {
    if (noNodeBecause) return;
    machine = await bootNode(backend, {
      'etc/sluice/sluiced.yaml': configOf(backend, { probes }),
      'opt/pry.sh': pry,
      'root/secret': '',
    });
    machine.write('/tmp/secret', '');
    receive = await install(machine);
    await untilActive(machine, 1);
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  test('both units are started and enabled; sluiced reported itself ready', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(receive).toMatchObject({ exitCode: 0, stderr: expect.not.stringMatching(/did not start|fail/i) });
    expect(await machine.must('systemctl', 'is-active', 'sluiced.service')).toBe('active');
    expect(await machine.must('systemctl', 'is-enabled', 'sluiced.service', 'sluiced-boot.service')).toBe(
      'enabled\nenabled',
    );
    expect(await machine.property('sluiced-boot.service', 'Result')).toBe('success');
    expect(await machine.property('sluiced.service', 'NRestarts')).toBe('0');
  });

  test('systemd accepts every line of the units', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const units = ['-u', 'sluiced.service', '-u', 'sluiced-boot.service', '-p', 'warning'];
    // Lines of sluiced begin with their level.
    const lines = (await machine.journal(...units)).split('\n').filter((line) => line !== '');
    expect(lines.filter((line) => !/^(warning|error|critical): /.test(line))).toEqual([]);
    expect(await machine.journal('_PID=1', '-p', 'warning')).not.toMatch(/sluice/);
  });

  test('the process has two capabilities, a system call filter, and cannot gain more', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const status = machine.read(`/proc/${await mainPid(machine)}/status`);
    // CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13 (linux/capability.h); 2 is SECCOMP_MODE_FILTER.
    for (const line of ['CapBnd:\t0000000000003000', 'CapEff:\t0000000000003000', 'NoNewPrivs:\t1', 'Seccomp:\t2'])
      expect(status.split('\n')).toContain(line);
  });

  test('its children can do nothing that the hardening forbids, though root elsewhere can', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(machine.read('/run/sluice/pried')).toBe('end\n');
    const tries = [...pry.matchAll(/^try '(.+?)'/gm)].map(([, name]) => name);
    expect((await machine.must('sh', '/opt/pry.sh')).split('\n')).toEqual([...tries, 'end']);
  });

  test('rules and sysctls are set, and the Service answers', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await rulesOf(machine, backend)).toContain('SLU-SVC-');
    expect(await rulesOf(machine, backend === 'nft' ? 'legacy' : 'nft')).not.toContain('SLU-');
    expect(await machine.must('cat', '/proc/sys/net/ipv4/conf/all/route_localnet')).toBe('1');
    expect(await machine.get(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  });

  test('status, metrics and health checks are answered', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await machine.must('sluiced', 'status')).toMatch(/^generation {2}1, .*\n(.*\n)*daemon {6}healthy/m);
    expect(await machine.get('http://127.0.0.1:10276/healthz')).toBeDefined();
    expect(await machine.get('http://127.0.0.1:10276/livez')).toBeDefined();
    expect(await machine.get('http://127.0.0.1:10276/metrics')).toMatch(/^sluice_/m);
  });

  test('applies a signed release, and the node signs a receipt for it', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const release = '/etc/sluice/release';
    machine.write('/root/release.sh', releasing);
    await machine.must('sh', '/root/release.sh', release);
    const config = configOf(backend, { bundle: release, signatures: '{policy: required}' });
    machine.write('/etc/sluice/sluiced.yaml', config);
    await machine.must('systemctl', 'restart', 'sluiced.service');
    const files = ['--allowed-receipts', '/etc/sluice/allowed_receipts', '--release', release];
    // It exits with 0 when the node has the release.
    const seen = await until('a receipt for the release', async () => {
      const { exitCode, stdout } = await machine.run('sluice', 'fleet', '/var/lib/sluice/receipts', ...files);
      return exitCode === 0 && stdout;
    });
    expect(seen).toContain('node-a');
    expect((await statusOf(machine)).release).toMatchObject({ serial: 1, signers: ['alice@example.com'] });
  });
});

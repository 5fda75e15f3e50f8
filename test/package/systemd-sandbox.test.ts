// @module-tag all
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Machine, Said } from './machine.fixture.ts';
import { until } from './machine.fixture.ts';
import {
  bootNode,
  configOf,
  install,
  mainPid,
  noNodeBecause,
  rulesOf,
  standing,
  statusOf,
  vip,
} from './node.fixture.ts';

/** The package on a Debian with systemd: its units run as they are shipped, and do all of their work behind their hardening. */

const pry = readFileSync(join(import.meta.dirname, 'pry.sh'), 'utf8');
const probes = `
  - {name: web, http: "${vip}", attempts: 3, intervalSeconds: 0.2, timeoutSeconds: 1}
  - {name: pry, exec: [/bin/sh, -c, "/bin/sh /opt/pry.sh >/run/sluice/prying && mv /run/sluice/prying /run/sluice/pried"]}`;

/** Makes a key and a release that is signed with it. */
const releasing = `set -e
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f /root/releases
echo "alice@example.com namespaces=\\"sluice-release\\" $(cut -d' ' -f1,2 /root/releases.pub)" >/etc/sluice/allowed_signers
sluice release /etc/sluice/rendered --serial 1 --source 0123456789abcdef0123456789abcdef01234567 -o "$1"
sluice sign "$1" --key /root/releases
sluiced keygen >/etc/sluice/allowed_receipts
`;

describe.each(['nft', 'legacy'] as const)('installed on a node that has its config and a bundle, on %s', (backend) => {
  let machine: Machine;
  let said: Said;
  beforeAll(async () => {
    if (noNodeBecause) return;
    machine = await bootNode(backend, {
      'etc/sluice/sluiced.yaml': configOf(backend, { probes }),
      'opt/pry.sh': pry,
      'root/secret': '',
    });
    machine.write('/tmp/secret', '');
    said = await install(machine);
    await standing(machine, 1);
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  test('both units are started and will be at the next boot; sluiced said itself that it is ready', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(said).toMatchObject({ exitCode: 0, stderr: expect.not.stringMatching(/did not start|fail/i) });
    expect(await machine.must('systemctl', 'is-active', 'sluiced.service')).toBe('active');
    expect(await machine.must('systemctl', 'is-enabled', 'sluiced.service', 'sluiced-boot.service')).toBe(
      'enabled\nenabled',
    );
    expect(await machine.property('sluiced-boot.service', 'Result')).toBe('success');
    expect(await machine.property('sluiced.service', 'NRestarts')).toBe('0');
  });

  test('systemd has nothing to say against a line of the units', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const units = ['-u', 'sluiced.service', '-u', 'sluiced-boot.service', '-p', 'warning'];
    // Lines of sluiced begin with their level.
    const lines = (await machine.journal(...units)).split('\n').filter((line) => line !== '');
    expect(lines.filter((line) => !/^(warning|error|critical): /.test(line))).toEqual([]);
    expect(await machine.journal('_PID=1', '-p', 'warning')).not.toMatch(/sluice/);
  });

  test('the process has two capabilities, a filter of system calls, and gets no more', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const status = machine.read(`/proc/${await mainPid(machine)}/status`);
    // CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13 (linux/capability.h); 2 is SECCOMP_MODE_FILTER.
    for (const line of ['CapBnd:\t0000000000003000', 'CapEff:\t0000000000003000', 'NoNewPrivs:\t1', 'Seccomp:\t2'])
      expect(status.split('\n')).toContain(line);
  });

  test('what it starts can do nothing of what the hardening is against, though root can elsewhere', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(machine.read('/run/sluice/pried')).toBe('end\n');
    const tries = [...pry.matchAll(/^try '(.+?)'/gm)].map(([, name]) => name);
    expect((await machine.must('sh', '/opt/pry.sh')).split('\n')).toEqual([...tries, 'end']);
  });

  test('rules, sysctls and the way through them are there', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await rulesOf(machine, backend)).toContain('SLU-SVC-');
    expect(await rulesOf(machine, backend === 'nft' ? 'legacy' : 'nft')).not.toContain('SLU-');
    expect(await machine.must('cat', '/proc/sys/net/ipv4/conf/all/route_localnet')).toBe('1');
    expect(await machine.ask(vip)).toMatch(/10\.244\.0\.[23]:8080/);
  });

  test('people, metrics and load balancers are answered', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    expect(await machine.must('sluiced', 'status')).toMatch(/^generation {2}1, .*\n(.*\n)*daemon {6}healthy/m);
    expect(await machine.ask('http://127.0.0.1:10276/healthz')).toBeDefined();
    expect(await machine.ask('http://127.0.0.1:10276/livez')).toBeDefined();
    expect(await machine.ask('http://127.0.0.1:10276/metrics')).toMatch(/^sluice_/m);
  });

  test('a signed release is believed and put in, and the node signs that it was', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const release = '/etc/sluice/release';
    machine.write('/root/release.sh', releasing);
    await machine.must('sh', '/root/release.sh', release);
    const config = configOf(backend, { bundle: release, signatures: '{policy: required}' });
    machine.write('/etc/sluice/sluiced.yaml', config);
    await machine.must('systemctl', 'restart', 'sluiced.service');
    const files = ['--allowed-receipts', '/etc/sluice/allowed_receipts', '--release', release];
    // It ends with 0 when the node is where it should be.
    const seen = await until('a receipt for the release', async () => {
      const { exitCode, stdout } = await machine.run('sluice', 'fleet', '/var/lib/sluice/receipts', ...files);
      return exitCode === 0 && stdout;
    });
    expect(seen).toContain('node-a');
    expect((await statusOf(machine)).release).toMatchObject({ serial: 1, signers: ['alice@example.com'] });
  });
});

// @module-tag all
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestMachine } from './machine.fixture.ts';
import { bootNode, bundleOf, install, noNodeBecause, publish, untilActive, vip } from './node.fixture.ts';

/** The rules of a node when it boots: after all other services that load rules, and before the first client. */

/** Loads rules that were saved before Sluice, and nothing else: as netfilter-persistent does, and iptables.service on other systems. */
const flushes = (backend: string): string => `[Unit]
Before=network-pre.target
Wants=network-pre.target
DefaultDependencies=no
After=local-fs.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "printf '*nat\\\\nCOMMIT\\\\n*filter\\\\n-A INPUT -m comment --comment saved -j ACCEPT\\\\nCOMMIT\\\\n' | iptables-${backend}-restore"
[Install]
WantedBy=multi-user.target
`;

/** Records the rules that it finds, in the place of the kubelet, and the answer to a client of a Service. */
const kubelet = (backend: string): string => `[Unit]
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "iptables-${backend}-save >/var/found; ip6tables-${backend}-save >>/var/found; cat /proc/sys/net/ipv4/conf/all/route_localnet >/var/found.sysctl"
[Install]
WantedBy=multi-user.target
`;

describe.each(['nft', 'legacy'] as const)('at the next boot, on %s', (backend) => {
  let machine: TestMachine;
  beforeAll(async () => {
    if (noNodeBecause) return;
    machine = await bootNode(backend, {
      'etc/systemd/system/netfilter-persistent.service': flushes(backend),
      'etc/systemd/system/kubelet.service': kubelet(backend),
    });
    await machine.must('systemctl', 'enable', 'netfilter-persistent.service', 'kubelet.service');
    await install(machine);
    await untilActive(machine, 1);
    publish(machine, bundleOf([3, 4]));
    await untilActive(machine, 2);
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  /** The machine boots without a bundle, so that only the confirmed generation can be restored. */
  async function bootAgain(): Promise<string> {
    await machine.must('rm', '-rf', '/etc/sluice/rendered', '/var/found', '/var/found.sysctl');
    await machine.must('sync');
    await machine.cut();
    await machine.start();
    return machine.read('/var/found');
  }

  test('the kubelet finds the confirmed rules and sysctls, and the rules of other services', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const found = await bootAgain();
    expect(found).toContain('--comment saved');
    expect(found).toMatch(/-j DNAT --to-destination 10\.244\.0\.4:8080/);
    expect(found).toMatch(/-j DNAT --to-destination \[fd00:10::3\]:8080/);
    expect(machine.read('/var/found.sysctl')).toBe('1\n');
    expect(await machine.journal('-b', '-u', 'sluiced-boot.service')).toMatch(/loaded generation 2 .*/);
    expect(await machine.get(vip)).toMatch(/10\.244\.0\.[45]:8080/);
  });

  test('they are loaded before the network is up, between those two', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    const at = async (unit: string, name: string): Promise<number> =>
      Number(await machine.property(unit, `${name}TimestampMonotonic`));
    const boot = 'sluiced-boot.service';
    expect(await at('netfilter-persistent.service', 'ExecMainExit')).toBeLessThan(await at(boot, 'ExecMainStart'));
    expect(await at(boot, 'ExecMainExit')).toBeLessThan(await at('network-online.target', 'ActiveEnter'));
    expect(await at(boot, 'ExecMainExit')).toBeLessThan(await at('kubelet.service', 'ExecMainStart'));
    expect(await at(boot, 'ExecMainExit')).toBeLessThan(await at('sluiced.service', 'ExecMainStart'));
  });

  test('a second start of the boot unit while the daemon runs changes nothing', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    await machine.must('systemctl', 'start', 'multi-user.target', 'sluiced-boot.service');
    expect(await machine.must('systemctl', 'is-system-running')).toBe('running');
  });

  test('with the newest generation broken, restores the previous one, and succeeds', async (context) => {
    if (noNodeBecause) return context.skip(noNodeBecause);
    await machine.must('systemctl', 'disable', 'sluiced.service');
    await machine.must('systemctl', 'stop', 'sluiced.service');
    const newest = await machine.must('sh', '-c', 'ls -t /var/lib/sluice/store | head -n 1');
    expect(newest).not.toBe('');
    machine.write(`/var/lib/sluice/store/${newest}`, 'damaged');
    await machine.must('rm', '-f', `/var/lib/sluice/copies/${newest}`);
    const found = await bootAgain();
    expect(found).toMatch(/-j DNAT --to-destination 10\.244\.0\.2:8080/);
    expect(await machine.property('sluiced-boot.service', 'Result')).toBe('success');
    expect(await machine.property('sluiced-boot.service', 'ExecMainStatus')).toBe('4');
  });
});

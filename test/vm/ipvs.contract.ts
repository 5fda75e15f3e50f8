import { compareText } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { ipvsSteps, planIpvs } from '../../packages/applier/src/ports/ipvs/plan.ts';
import type { IpvsKernel } from '../../packages/applier/src/ports/ipvs/ports.ts';
import { server, set, state } from '../../packages/applier/src/ports/ipvs/states.fixture.ts';
import { type ObservedIpvs, type IpvsStep, emptyIpvs, ownedBy } from '../../packages/applier/src/ports/ipvs/values.ts';

const vip = '10.96.0.10:80/TCP';
const options = { now: 0, drainMs: 60_000, excludeCIDRs: [] };
const step = (kind: IpvsStep['kind'], ...lines: readonly string[]): IpvsStep => ({
  kind,
  text: lines.map((line) => `${line}\n`).join(''),
  because: 'the contract suite needs it',
});
const create = 'hashsize 1024 maxelem 65536';

/** Servers of every protocol and family, with every attribute that a bundle can have. */
const everything = [
  '-A -t 10.96.0.10:80 -s rr',
  '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1',
  '-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 65535',
  '-A -u 10.96.0.10:53 -s wrr -p 600',
  '-a -u 10.96.0.10:53 -r 10.244.1.5:5353 -m -w 0',
  '-A --sctp-service 10.96.0.11:2905 -s lc',
  '-A -t [fd00:96::10]:80 -s wlc -p 86400 -M 128',
  '-a -t [fd00:96::10]:80 -r [fd00:244::5]:8080 -m -w 3',
  '-A -t 10.96.0.12:80 -s mh -b mh-fallback,mh-port',
  '-A -t 10.96.0.13:80 -s sh -b sh-port',
  '-A -t 10.96.0.14:80 -s dh',
];

/**
 * The contract of every kernel with mode ipvs, the fake one and the real one.
 * @param open gives a kernel without servers, sets and interface; its machine has no addresses but 127.0.0.1
 */
export function ipvsContract(name: string, open: () => Promise<IpvsKernel>): void {
  const keys = ({ servers }: ObservedIpvs): readonly string[] => [...servers.keys()].toSorted(compareText);

  test(`${name}: servers are listed as they were created`, async () => {
    const kernel = await open();
    await kernel.apply(step('ipvsadm', '--set 800 0 250', ...everything));
    const seen = await kernel.observe();
    expect(seen.timeouts).toEqual({ tcp: 800, tcpFin: 120, udp: 250 });
    expect([...seen.foreign]).toEqual([]);
    expect(keys(seen)).toHaveLength(7);
    expect(seen.servers.get('10.96.0.10:53/UDP')).toMatchObject({ scheduler: 'wrr', persistence: 600 });
    expect(seen.servers.get('[fd00:96::10]:80/TCP')).toMatchObject({ family: 'ipv6', persistence: 86_400 });
    expect(seen.servers.get('10.96.0.12:80/TCP')?.flags).toEqual(['mh-fallback', 'mh-port']);
    expect(seen.servers.get('10.96.0.13:80/TCP')?.flags).toEqual(['sh-port']);
    const weights = [...(seen.servers.get(vip)?.real ?? [])].map(([endpoint, { weight }]) => [endpoint, weight]);
    expect(Object.fromEntries(weights)).toEqual({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 65_535 });
  });

  test(`${name}: weights, attributes and removals`, async () => {
    const kernel = await open();
    await kernel.apply(step('ipvsadm', ...everything));
    await kernel.apply(
      step(
        'ipvsadm',
        '-e -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 0',
        '-d -t 10.96.0.10:80 -r 10.244.2.6:8080',
        '-E -u 10.96.0.10:53 -s rr',
        '-D -t [fd00:96::10]:80',
      ),
    );
    const { servers } = await kernel.observe();
    expect([...(servers.get(vip)?.real.values() ?? [])].map(({ weight }) => weight)).toEqual([0]);
    expect(servers.get('10.96.0.10:53/UDP')).not.toHaveProperty('persistence');
    expect(servers.get('10.96.0.10:53/UDP')?.real.size).toBe(1);
    expect(servers.has('[fd00:96::10]:80/TCP')).toBe(false);
  });

  test.each([
    ['an existing server', '-A -t 10.96.0.10:80 -s rr'],
    ['a missing real server', '-d -t 10.96.0.10:80 -r 10.244.9.9:80'],
    ['a missing server', '-D -t 10.96.9.9:80'],
  ])(`${name}: refuses a change of %s, and applies the lines after it`, async (_title, line) => {
    const kernel = await open();
    await kernel.apply(step('ipvsadm', '-A -t 10.96.0.10:80 -s rr'));
    await expect(kernel.apply(step('ipvsadm', line, '-A -t 10.96.0.20:80 -s rr'))).rejects.toThrow('Cannot run');
    expect(keys(await kernel.observe())).toEqual([vip, '10.96.0.20:80/TCP']);
  });

  test(`${name}: sets are filled, swapped and destroyed`, async () => {
    const kernel = await open();
    await kernel.apply(
      step(
        'ipset',
        `create KUBE-CLUSTER-IP hash:ip,port family inet ${create}`,
        'add KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
        'add KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
        'del KUBE-CLUSTER-IP 10.96.0.99,tcp:80',
        `create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6 ${create}`,
        'add KUBE-6-LOAD-BALANCER-SOURCE-CID fd00::1,tcp:80,2001:db8::/32',
        'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535',
        'add KUBE-NODE-PORT-TCP 30080',
      ),
    );
    await kernel.apply(
      step(
        'ipset',
        'create SLUICE-NEXT-0 hash:ip,port family inet hashsize 1024 maxelem 131072',
        'add SLUICE-NEXT-0 10.96.0.11,sctp:2905',
        'swap SLUICE-NEXT-0 KUBE-CLUSTER-IP',
        'destroy SLUICE-NEXT-0',
      ),
    );
    const { sets } = await kernel.observe();
    expect(Object.fromEntries([...sets].map(([key, { entries }]) => [key, [...entries]]))).toEqual({
      'KUBE-CLUSTER-IP': ['10.96.0.11,sctp:2905'],
      'KUBE-6-LOAD-BALANCER-SOURCE-CID': ['fd00::1,tcp:80,2001:db8::/32'],
      'KUBE-NODE-PORT-TCP': ['30080'],
    });
    expect(sets.get('KUBE-CLUSTER-IP')).toMatchObject({ type: 'hash:ip,port', family: 'ipv4', maxElements: 131_072 });
    expect(sets.get('KUBE-NODE-PORT-TCP')).not.toHaveProperty('maxElements');
    await kernel.apply(step('ipset', ...[...sets.keys()].map((one) => `destroy ${one}`)));
    expect((await kernel.observe()).sets.size).toBe(0);
  });

  test(`${name}: the interface and its addresses`, async () => {
    const kernel = await open();
    expect((await kernel.observe()).bound).toBeUndefined();
    await kernel.apply(
      step(
        'ip',
        'link add kube-ipvs0 type dummy',
        'addr add 10.96.0.10/32 dev kube-ipvs0',
        'addr add fd00:96::10/128 dev kube-ipvs0 nodad preferred_lft 0',
      ),
    );
    await kernel.apply(step('ip', 'addr add 10.96.0.11/32 dev kube-ipvs0', 'addr del 10.96.0.10/32 dev kube-ipvs0'));
    expect((await kernel.observe()).bound).toEqual({ ipv4: new Set(['10.96.0.11']), ipv6: new Set(['fd00:96::10']) });
    await expect(
      kernel.apply(step('ip', 'addr del 10.96.0.77/32 dev kube-ipvs0', 'addr del 10.96.0.11/32 dev kube-ipvs0')),
    ).rejects.toThrow('Cannot run');
    expect((await kernel.observe()).bound?.ipv4).toEqual(new Set(['10.96.0.11']));
    await kernel.apply(step('ip', 'link del kube-ipvs0'));
    expect((await kernel.observe()).bound).toBeUndefined();
  });

  test(`${name}: a plan is applied, a second one is a no-op, and the removal leaves nothing`, async () => {
    const kernel = await open();
    const wanted = state(
      [
        server(vip, { '10.244.1.5:8080': 1, '10.244.2.6:8080': 2 }, { scheduler: 'wrr', persistence: 600 }),
        server('10.96.0.10:53/UDP', { '10.244.1.5:5353': 1 }),
        server('10.96.0.11:2905/SCTP', {}, { scheduler: 'mh', flags: ['mh-port'] }),
      ],
      [
        set('KUBE-CLUSTER-IP', '10.96.0.10,tcp:80', '10.96.0.10,udp:53'),
        set('KUBE-IPVS-IPS', '10.96.0.10', '10.96.0.11'),
      ],
    );
    const to = async (desired: typeof wanted): Promise<readonly IpvsStep[]> => {
      const steps = ipvsSteps(planIpvs(await kernel.observe(), desired, ownedBy(wanted), [], options));
      for (const one of steps) await kernel.apply(one);
      return steps;
    };
    expect((await to(wanted)).map(({ kind }) => kind)).toEqual(['ipset', 'ipvsadm', 'ip']);
    expect(await to(wanted)).toEqual([]);
    expect((await to(emptyIpvs)).map(({ kind }) => kind)).toEqual(['ip', 'ipvsadm', 'ipset']);
    const seen = await kernel.observe();
    expect([seen.servers.size, seen.sets.size, seen.bound]).toEqual([0, 0, undefined]);
  });
}

import { expect, test } from 'vitest';
import { compared, edit } from './observed.fixture.ts';

test.each([
  ['rr', 'sh', 'different', ['config']],
  ['rr', 'dh', 'different', ['config']],
  ['rr', 'mh -b mh-fallback', 'different', ['config']],
  // Each connection is another client then.
  ['rr', 'sh -b sh-port', 'equivalent', []],
  ['rr', 'wrr', 'equivalent', []],
  ['rr', 'lc', 'equivalent', []],
  ['rr', 'nq', 'equivalent', []],
] as const)(
  'a node whose virtual servers have scheduler %s in the bundle and %s in the kernel is %s',
  (own, other, result, causes) => {
    const report = compared('10-ipvs', (saved) => {
      const text = saved.get('ipvsadm.txt') ?? '';
      const changed = text.replaceAll(new RegExp(`^(-A .*) -s ${own}\\b(?! -p)`, 'gm'), `$1 -s ${other}`);
      if (changed === text) throw new Error(text);
      saved.set('ipvsadm.txt', changed);
    });
    expect(report.result).toBe(result);
    expect([...new Set(report.differences.map(({ cause }) => cause))]).toEqual(causes);
    const named = report.coverage.notCovered.filter(({ what }) => what === `schedulers ${other} (observed) and ${own}`);
    expect([...new Set(named.map(({ matters }) => matters))]).toEqual(['lc', 'nq'].includes(other) ? [false] : []);
  },
);

test.each([
  ['is dropped before any rule: no packet of it is compared', '0', 'equivalent'],
  ['is compared where the kernel routes it', '1', 'different'],
])('a source on a loopback network that arrives by a wire %s', (_, routed, result) => {
  const report = compared('01-cluster-ip', (saved) => {
    // kube-proxy in mode ipvs has the rule on each node.
    edit(/(?<=\*nat\n[^*]*?\n)(?=-A KUBE-SERVICES )/, '-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN\n')(saved);
    saved.set('sysctl.txt', `net.ipv4.conf.all.route_localnet = ${routed}\n`);
  });
  expect(report.result).toBe(result);
});

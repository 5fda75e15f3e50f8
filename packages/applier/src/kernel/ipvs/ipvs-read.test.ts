import { expect, test } from 'vitest';
import { readAddresses, readConnections, readSets, readTimeouts } from './ipvs-read.ts';

test('adds active and inactive connections of real servers', () => {
  const text = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  192.0.2.50:80 wrr persistent 600
  -> 10.244.1.5:8080              Masq    3      12         3         
  -> 10.244.2.6:8080              Masq    0      0          0         
FWM  7 rr
  -> 192.0.2.9:0                  Route   1      5          5         
TCP  [fd00::1]:80 rr
  -> [fd00::5]:8080               Masq    0      1          1         
SCTP 10.9.0.3:2905 rr
`;
  expect(readConnections(text)).toEqual(
    new Map([
      [
        '192.0.2.50:80/TCP',
        new Map([
          ['10.244.1.5:8080', 15],
          ['10.244.2.6:8080', 0],
        ]),
      ],
      ['[fd00::1]:80/TCP', new Map([['[fd00::5]:8080', 2]])],
      ['10.9.0.3:2905/SCTP', new Map()],
    ]),
  );
  expect(readConnections(text, 'established').get('192.0.2.50:80/TCP')?.get('10.244.1.5:8080')).toBe(12);
});

test('ignores foreign sets, and the size of a grown hash', () => {
  const sets = readSets(
    [
      'create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 4096 maxelem 65536 bucketsize 12 initval 0xf4805e1f',
      'add KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
      'create blocklist hash:net family inet hashsize 1024 maxelem 65536',
      'add blocklist 192.0.2.0/24',
      'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535',
      'create SLUICE-NEXT-3 hash:ip family inet6 hashsize 1024 maxelem 131072',
      '',
    ].join('\n'),
  );
  expect([...sets.values()]).toEqual([
    {
      name: 'KUBE-CLUSTER-IP',
      type: 'hash:ip,port',
      family: 'ipv4',
      maxElements: 65_536,
      entries: new Set(['10.96.0.10,tcp:80']),
    },
    { name: 'KUBE-NODE-PORT-TCP', type: 'bitmap:port', family: 'ipv4', entries: new Set() },
    { name: 'SLUICE-NEXT-3', type: 'hash:ip', family: 'ipv6', maxElements: 131_072, entries: new Set() },
  ]);
});

test('separates the addresses of our interface from the others', () => {
  const link = (ifname: string, family: string, local: string): object => ({ ifname, addr_info: [{ family, local }] });
  const text = JSON.stringify([
    link('lo', 'inet', '127.0.0.1'),
    link('kube-ipvs0', 'inet6', 'fd00:0::10'),
    { ifname: 'eth0' },
  ]);
  expect(readAddresses(text)).toEqual({
    bound: { ipv4: new Set(), ipv6: new Set(['fd00::10']) },
    elsewhere: { ipv4: new Set(['127.0.0.1']), ipv6: new Set() },
  });
  expect(readAddresses('[]').bound).toBeUndefined();
});

test.each([
  ['Timeout (tcp tcpfin udp): 900 120 300\n', { tcp: 900, tcpFin: 120, udp: 300 }],
  ['', undefined],
])('time-outs %j', (text, timeouts) => {
  expect(readTimeouts(text)).toEqual(timeouts);
});

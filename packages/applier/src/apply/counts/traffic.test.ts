// @module-tag quick
import { emptyNft } from '@sluice/netfilter';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { readStatistics } from '../../kernel/ipvs/ipvs-statistics.ts';
import { limits } from '../../limits.ts';
import type { NodeState, ServiceNames } from '../../ports/node-state.ts';
import { TrafficMetrics } from '../../observe/status/status-metrics.ts';
import { familiesServed, type ServiceAt, servicesAt } from './frontends.ts';
import { busiestServices } from './most.ts';
import { countsOfServers, trafficOfServers } from './of-servers.ts';
import { ServiceCounts } from './service-counts.ts';
import { TrafficReader, type TrafficReading, TrafficSums } from './traffic.ts';

const services = new Map([
  ['tcp 10.96.0.10 80', 'shop/web:http'],
  ['tcp * 30080', 'shop/web:http'],
  ['udp fd00::10 53', 'shop/dns'],
]);
const serviceAt: ServiceAt = (protocol, address, port) => services.get(`${protocol} ${address ?? '*'} ${port}`);

/** Lines of `conntrack -L`, with and without accounting. */
const listing = `tcp      6 431999 ESTABLISHED src=10.244.1.9 dst=10.96.0.10 sport=40000 dport=80 packets=5 bytes=500 src=10.244.0.1 dst=10.244.1.9 sport=8080 dport=40000 packets=4 bytes=4000 [ASSURED] mark=0 use=1
tcp      6 431999 ESTABLISHED src=10.244.1.9 dst=10.96.0.10 sport=40001 dport=80 src=10.244.0.2 dst=10.244.1.9 sport=8080 dport=40001 [ASSURED] mark=0 use=1
tcp      6 119 TIME_WAIT src=198.51.100.7 dst=192.0.2.11 sport=40002 dport=30080 packets=5 bytes=70 src=10.244.0.1 dst=192.0.2.11 sport=8080 dport=40002 packets=4 bytes=30 [ASSURED] mark=0 use=1
tcp      6 119 SYN_SENT src=198.51.100.7 dst=10.96.0.10 sport=40003 dport=80 packets=1 bytes=60 [UNREPLIED] src=10.244.0.1 dst=198.51.100.7 sport=8080 dport=40003 packets=0 bytes=0 mark=0 use=1
tcp      6 431999 ESTABLISHED src=192.0.2.11 dst=192.0.2.12 sport=40004 dport=30080 packets=5 bytes=500 src=192.0.2.12 dst=192.0.2.11 sport=30080 dport=40004 packets=4 bytes=4000 [ASSURED] mark=0 use=1
tcp      6 431999 ESTABLISHED src=10.244.1.9 dst=10.96.0.10 sport=40005 dport=443 src=10.244.0.3 dst=10.244.1.9 sport=8443 dport=40005 [ASSURED] mark=0 use=1
udp      17 25 src=fd00::99 dst=fd00::10 sport=5353 dport=53 packets=2 bytes=130 src=fd00:244::5 dst=fd00::99 sport=53 dport=5353 packets=1 bytes=200 mark=0 use=1
icmp     1 29 src=10.244.1.9 dst=10.96.0.10 type=8 code=0 id=80 src=10.96.0.10 dst=10.244.1.9 type=0 code=0 id=80 mark=0 use=1
unknown  2 500 src=192.0.2.1 dst=224.0.0.1 [UNREPLIED] src=224.0.0.1 dst=192.0.2.1 mark=0 use=1
`;

function read(text: string, size = text.length): TrafficReading {
  const sums = new TrafficSums();
  const reader = new TrafficReader(serviceAt, sums);
  for (let at = 0; at < text.length; at += size) reader.take(text.slice(at, at + size));
  reader.take('\n');
  return sums.reading;
}

const plain = (reading: TrafficReading): object =>
  Object.fromEntries([...reading].map(([service, own]) => [service, Object.fromEntries(own)]));

test.each([1, 7, 4096])(
  'adds up translated connections in parts of %i characters, ended ones by their bytes alone',
  (size) => {
    expect(plain(read(listing, size))).toEqual({
      'shop/web:http': {
        '10.244.0.1:8080': { live: 2, bytes: 4660 },
        '10.244.0.2:8080': { live: 1, bytes: 0 },
      },
      'shop/dns': { '[fd00:244::5]:53': { live: 1, bytes: 330 } },
    });
  },
);

test('keeps a bounded number of endpoints', () => {
  const line = (at: number): string =>
    `tcp 6 9 ESTABLISHED src=192.0.2.1 dst=10.96.0.10 sport=1 dport=80 src=10.${at >> 16}.${(at >> 8) & 255}.${at & 255} dst=192.0.2.1 sport=8080 dport=1 [ASSURED]\n`;
  const reading = read(Array.from({ length: limits.deletedCountsKept + 3 }, (_, at) => line(at)).join(''));
  expect(reading.get('shop/web:http')?.size).toBe(limits.deletedCountsKept);
});

test('finds the Services of frontends in the table of mode nftables, node ports at any address', () => {
  const frontends = new Map([
    ['10.96.0.10 . tcp . 80', []],
    ['0.0.0.0 . tcp . 30080', []],
    ['fd00::10 . udp . 53', []],
  ]);
  const names = new Map([['shop/web', ['frontend 10.96.0.10 . tcp . 80', 'frontend 0.0.0.0 . tcp . 30080']]]);
  const state = { families: {}, sysctls: new Map(), nft: { ...emptyNft, frontends }, services: names };
  expect(familiesServed(state)).toEqual(['ipv4', 'ipv6']);
  const [four, six] = [servicesAt(state, 'ipv4'), servicesAt(state, 'ipv6')];
  expect(four('tcp', '10.96.0.10', '80')).toBe('shop/web');
  expect(four('tcp', undefined, '30080')).toBe('shop/web');
  expect(four('udp', '10.96.0.10', '80')).toBeUndefined();
  expect(four('tcp', undefined, '80')).toBeUndefined();
  expect(six('udp', 'fd00::10', '53')).toBe('fd00::10 . udp . 53');
  const onlyFour = { ...state, nft: { ...emptyNft, frontends: new Map([['10.96.0.10 . tcp . 80', []]]) } };
  expect(familiesServed(onlyFour)).toEqual(['ipv4']);
});

test('reads no rule before a connection is there', () => {
  const state: NodeState = {
    sysctls: new Map(),
    get families(): never {
      throw new Error('rules are read');
    },
  };
  const at = servicesAt(state, 'ipv4');
  expect(() => at('tcp', '10.96.0.10', '80')).toThrow('rules are read');
});

test('tells the Services with most of each figure, and nulls where nothing is read', () => {
  const traffic = new Map(
    Array.from({ length: 200 }, (_, at) => [`s/${at}`, new Map([['a:1', { live: at, bytes: 200 - at }]])] as const),
  );
  const told = busiestServices({ counts: undefined, traffic, hasBytes: true }, () => new Map());
  expect(told).toHaveLength(2 * limits.countedFrontendsShown);
  expect(told[0]).toMatchObject({ service: 's/199', connections: null, recent: null, live: 199, bytes: 1 });
  expect(told.at(-1)).toMatchObject({ service: 's/0', live: 0, bytes: 200 });
  const few = busiestServices({ counts: undefined, traffic, hasBytes: false }, () => new Map());
  expect(few).toHaveLength(limits.countedFrontendsShown);
  expect(few[0]).toMatchObject({ bytes: null, endpoints: [{ endpoint: 'a:1', live: 199, bytes: null, share: null }] });
});

test('joins live connections with new ones, and keeps them between two of their readings', () => {
  const counts = new ServiceCounts();
  const state = { families: {}, sysctls: new Map() };
  const count = (connections: number) => [{ service: 's/s', chain: 'c', endpoint: 'a:1', connections }];
  expect(counts.takeTraffic(new Map([['s/s', new Map([['a:1', { live: 3, bytes: 9 }]])]]), true, 0)).toMatchObject({
    seconds: null,
    traffic: { seconds: null, hasBytes: true },
    services: [{ connections: null, live: 3, bytes: 9 }],
  });
  expect(counts.take(count(5), state, 1000)).toMatchObject({ services: [{ connections: 5, live: 3 }] });
  const again = counts.takeTraffic(new Map([['s/s', new Map([['b:1', { live: 1, bytes: 2 }]])]]), false, 60_000);
  expect(again).toMatchObject({
    traffic: { seconds: 60, hasBytes: false },
    services: [
      {
        connections: 5,
        live: 1,
        bytes: null,
        endpoints: [
          { endpoint: 'a:1', live: 0 },
          { endpoint: 'b:1', live: 1 },
        ],
      },
    ],
  });
});

test('tells as many Services, and exports as many series, as the config says', async () => {
  const traffic = new Map(
    ['s/a', 's/b', 's/c'].map((service, at) => [
      service,
      new Map(['a:1', 'a:2'].map((endpoint) => [endpoint, { live: 9 - at, bytes: 9 - at }])),
    ]),
  );
  const told = new ServiceCounts(2).takeTraffic(traffic, true, 0);
  expect(told.services.map(({ service }) => service)).toEqual(['s/a', 's/b']);
  const registry = new Registry();
  const metrics = new TrafficMetrics(registry);
  const series = async (name: string): Promise<number> =>
    [...(await registry.metrics()).matchAll(new RegExp(`^${name}\\{`, 'gm'))].length;
  metrics.take(told.services, told.most);
  expect([await series('sluice_service_bytes'), await series('sluice_endpoint_bytes')]).toEqual([2, 2]);
  metrics.take(told.services, 1);
  expect([await series('sluice_service_bytes'), await series('sluice_endpoint_bytes')]).toEqual([1, 1]);
});

test('a Service that was not told when live connections were read has no figure of them later', () => {
  const counts = new ServiceCounts();
  const names = Array.from({ length: limits.countedFrontendsShown + 1 }, (_, at) => `s/${at}`);
  const traffic = new Map(names.map((service, at) => [service, new Map([['a:1', { live: 99 - at, bytes: 99 - at }]])]));
  expect(counts.takeTraffic(traffic, true, 0).services).toHaveLength(limits.countedFrontendsShown);
  const service = names.at(-1) ?? '';
  const reading = [{ service, chain: 'c', endpoint: 'a:1', connections: 1 }];
  const told = counts.take(reading, { families: {}, sysctls: new Map() }, 1000);
  expect(told.services.find((one) => one.service === service)).toMatchObject({
    connections: 1,
    live: null,
    bytes: null,
    endpoints: [{ live: null, bytes: null }],
  });
  const again = counts.takeTraffic(new Map(), true, 2000);
  expect(again.services).toMatchObject([{ service, live: 0, bytes: 0 }]);
});

/** `ipvsadm -L -n` and `ipvsadm -L -n --stats --exact` of ipvsadm 1.31. */
const servers = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.96.0.11:80 rr
  -> 10.244.1.5:8080              Masq    1      2          7
  -> 10.244.1.6:8080              Masq    1      0          0
UDP  [fd00::10]:53 rr
  -> [fd00:244::5]:53             Masq    1      0          4
FWM  7 rr
  -> 10.244.1.7:8080              Masq    1      9          9
`;
const statistics = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes
  -> RemoteAddress:Port
TCP  10.96.0.11:80                   12000       30       20     2000     3000
  -> 10.244.1.5:8080                 12000       30       20     2000     3000
  -> 10.244.1.6:8080                     0        0        0        0        0
  -> 10.244.1.9:8080                     1        1        1        1        1
UDP  [fd00::10]:53                       4        4        4      240      400
  -> [fd00:244::5]:53                    4        4        4      240      400
FWM  7                                   9        9        9        9        9
  -> 10.244.1.7:8080                     9        9        9        9        9
`;

test('joins both listings of mode ipvs, without servers of one of them and without firewall marks', () => {
  const joined = readStatistics(servers, statistics);
  expect(joined).toEqual([
    { server: '10.96.0.11:80/TCP', endpoint: '10.244.1.5:8080', connections: 12_000, live: 2, bytes: 5000 },
    { server: '10.96.0.11:80/TCP', endpoint: '10.244.1.6:8080', connections: 0, live: 0, bytes: 0 },
    { server: '[fd00::10]:53/UDP', endpoint: '[fd00:244::5]:53', connections: 4, live: 4, bytes: 640 },
  ]);
});

/** A state with these virtual servers, and what it says of Services. */
const serving = (keys: readonly string[], names?: ServiceNames): NodeState =>
  ({
    families: {},
    sysctls: new Map(),
    ipvs: { virtualServers: new Map(keys.map((key) => [key, {}])) },
    ...(names ? { services: names } : {}),
  }) as unknown as NodeState;

test('counts virtual servers by Service, all its ports together, and leaves out foreign ones', () => {
  const keys = ['10.96.0.11:80/TCP', '[fd00::10]:53/UDP'] as const;
  const row = { endpoint: '10.244.1.5:8080', connections: 3, live: 1, bytes: 10 };
  const rows = [
    ...readStatistics(servers, statistics),
    { ...row, server: '10.96.0.11:443/TCP' },
    { ...row, server: '192.0.2.1:25/TCP' },
  ];
  const state = serving([...keys, '10.96.0.11:443/TCP'], new Map([['shop/web', [keys[0], '10.96.0.11:443/TCP']]]));
  expect(countsOfServers(rows, state).map((one) => [one.service, one.group, one.connections])).toEqual([
    ['shop/web', keys[0], 12_000],
    // A state of an older version names no Services.
    [keys[1], keys[1], 4],
    ['shop/web', '10.96.0.11:443/TCP', 3],
  ]);
  expect(plain(trafficOfServers(rows, state))).toEqual({
    'shop/web': { '10.244.1.5:8080': { live: 3, bytes: 5010 } },
    [keys[1]]: { '[fd00:244::5]:53': { live: 4, bytes: 640 } },
  });
});

// @module-tag quick
import { expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { ConnectionTotals } from './connection-totals.ts';
import { busiestServices } from './most.ts';
import { countsOfFrontends } from './of-frontends.ts';
import { RuleCountReader } from './rule-counts.ts';

/** Layout `tree`: two Services, one by way of a group and of a chain for traffic from outside. */
const tree = `*nat
:SLUICE-SERVICES - [0:0]
[9:540] -A SLUICE-SERVICES -g SLUICE-R-A.00
[4:240] -A SLUICE-T-B.00 -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -g SLU-SVC-WEBWEBWEBWEBWEB2.1c
[3:180] -A SLUICE-T-B.00 -p tcp -m comment --comment "shop/big external" -m tcp --dport 30080 -g SLU-EXT-BIGBIGBIGBIGBIG2.2c
[3:180] -A SLU-EXT-BIGBIGBIGBIGBIG2.2c -j KUBE-MARK-MASQ
[3:180] -A SLU-EXT-BIGBIGBIGBIGBIG2.2c -g SLU-SVC-BIGBIGBIGBIGBIG2.3c
[3:180] -A SLU-SVC-BIGBIGBIGBIGBIG2.3c -g SLU-GRP-BIGBIGBIGBIGBIG2.4c
[3:180] -A SLU-GRP-BIGBIGBIGBIGBIG2.4c -p tcp -m tcp -j DNAT --to-destination 10.244.0.9:8080
[1:60] -A SLU-SVC-WEBWEBWEBWEBWEB2.1c -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.0.1:8080
[3:180] -A SLU-SVC-WEBWEBWEBWEBWEB2.1c -p tcp -j DNAT --to-destination 10.244.0.2:8080
[7:420] -A DOCKER -p tcp -j DNAT --to-destination 172.17.0.2:80
COMMIT
`;

/** Layout `flat`: the endpoint has a chain of its own. */
const flat = `*nat
[2:120] -A KUBE-SERVICES -d fd00::10/128 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-WEBWEBWEBWEBWEB2
[2:120] -A KUBE-SVC-WEBWEBWEBWEBWEB2 -m comment --comment "shop/web:http -> [fd00::5]:8080" -j KUBE-SEP-AAAAAAAAAAAAAAAA
[0:0] -A KUBE-SEP-AAAAAAAAAAAAAAAA -s fd00::5/128 -j KUBE-MARK-MASQ
[2:120] -A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination [fd00::5]:8080
COMMIT
`;

/** In parts of some characters. */
function read(text: string, size = text.length) {
  const reader = new RuleCountReader();
  for (let at = 0; at < text.length; at += size) reader.take(text.slice(at, at + size));
  return reader.done();
}

test.each([1, 7, 4096])('reads layout tree in parts of %i characters, and leaves out foreign rules', (size) => {
  expect(read(tree, size).map(({ service, endpoint, connections }) => [service, endpoint, connections])).toEqual([
    ['shop/big', '10.244.0.9:8080', 3],
    ['shop/web:http', '10.244.0.1:8080', 1],
    ['shop/web:http', '10.244.0.2:8080', 3],
  ]);
});

test('reads layout flat, and IPv6', () => {
  expect(read(flat)).toEqual([
    {
      service: 'shop/web:http',
      chain: 'KUBE-SEP-AAAAAAAAAAAAAAAA',
      group: 'KUBE-SVC-WEBWEBWEBWEBWEB2',
      endpoint: '[fd00::5]:8080',
      connections: 2,
    },
  ]);
});

const of = (chain: string, connections: number, endpoint = 'a:1') => ({ service: 's/s', chain, endpoint, connections });

test('where two chains of a Service share the chain of an endpoint, it is not known which of them chose', () => {
  const more = `[1:60] -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http node port" -m tcp --dport 30080 -j KUBE-SVL-WEBWEBWEBWEBWEB2
[1:60] -A KUBE-SVL-WEBWEBWEBWEBWEB2 -j KUBE-SEP-AAAAAAAAAAAAAAAA
COMMIT
`;
  const local = flat.replace('COMMIT\n', more);
  expect(read(local)).toEqual([expect.not.objectContaining({ group: expect.anything() })]);
});

test('keeps totals over chains that are made again, rules that begin at zero, and rules that go', () => {
  const totals = new ConnectionTotals();
  totals.take([of('SLU-SVC-A.00', 5)]);
  totals.take([of('SLU-SVC-A.00', 8)]);
  // Another name: the content changed.
  totals.take([of('SLU-SVC-A.01', 2)]);
  // The same name: a restore wrote it again.
  totals.take([of('SLU-SVC-A.01', 1)]);
  totals.take([]);
  expect(totals.all).toEqual([{ service: 's/s', endpoint: 'a:1', connections: 11, recent: 0 }]);
  totals.take([of('SLU-SVC-A.01', 4)]);
  expect(totals.all[0]).toMatchObject({ connections: 15, recent: 4 });
});

test('forgets those first that have had no new connections for longest', () => {
  const totals = new ConnectionTotals();
  const many = (from: number, count: number) => Array.from({ length: count }, (_, at) => of('c', 1, `e:${from + at}`));
  totals.take(many(0, limits.deletedCountsKept));
  totals.take([...many(limits.deletedCountsKept, 2), of('c', 2, 'e:0')]);
  const kept = totals.all.map(({ endpoint }) => endpoint);
  expect(kept).toHaveLength(limits.deletedCountsKept);
  expect(kept.slice(0, 1)).toEqual(['e:3']);
  expect(kept).toContain('e:0');
});

const unread = { live: null, bytes: null };

test('two chains of a Service that lead to one endpoint count together', () => {
  const totals = new ConnectionTotals();
  totals.take([of('SLU-SVC-A.00', 5), of('SLU-SVL-A.00', 6), of('SLU-SVC-A.00', 1, 'b:1')]);
  expect(busiestServices({ counts: totals.all, traffic: undefined, hasBytes: false }, () => new Map())).toEqual([
    {
      service: 's/s',
      connections: 12,
      recent: 12,
      ...unread,
      endpoints: [
        { endpoint: 'a:1', connections: 11, recent: 11, ...unread, share: null, expectedShare: null },
        { endpoint: 'b:1', connections: 1, recent: 1, ...unread, share: null, expectedShare: null },
      ],
    },
  ]);
});

test('tells 50 Services at most', () => {
  const counts = Array.from({ length: 60 }, (_, at) => ({
    service: `s/${at}`,
    endpoint: 'a:1',
    connections: at,
    recent: 0,
  }));
  const told = busiestServices({ counts, traffic: undefined, hasBytes: false }, () => new Map());
  expect(told).toHaveLength(50);
  expect(told[0]).toMatchObject({ service: 's/59', connections: 59 });
});

test('endpoints of a Service in mode nftables count over its frontends; frontends of no Service are left out', () => {
  const services = new Map([
    ['shop/web', ['frontend 10.96.0.10 . tcp . 80', 'frontend 0.0.0.0 . tcp . 30080', 'health 32090']],
    ['shop/six', ['frontend fd00::10 . udp . 53']],
  ]);
  const count = (frontend: string, endpoint: string, connections: number) => ({ frontend, endpoint, connections });
  const totals = new ConnectionTotals();
  const take = (more: number) =>
    totals.take(
      countsOfFrontends(
        [
          count('10.96.0.10 . tcp . 80', '10.244.0.1 . 8080', 2 + more),
          count('0.0.0.0 . tcp . 30080', '10.244.0.1 . 8080', 3 + more),
          count('fd00::10 . udp . 53', 'fd00::5 . 53', 4),
          count('192.0.2.1 . tcp . 80', '10.244.0.9 . 8080', 5),
        ],
        services,
      ),
    );
  take(0);
  take(10);
  expect(totals.all).toEqual([
    { service: 'shop/six', endpoint: '[fd00::5]:53', connections: 4, recent: 0 },
    { service: 'shop/web', endpoint: '10.244.0.1:8080', connections: 25, recent: 20 },
  ]);
});

import { expect, test } from 'vitest';
import type { Protocol } from './model.ts';
import { chainNames, hash16 } from './chain-names.ts';

test.each<[string, Protocol, string]>([
  ['default/kubernetes:https', 'TCP', 'NPX46M4PTMTKRN6Y'],
  ['kube-system/kube-dns:dns', 'UDP', 'TCOU7JCQXEZGVUNU'],
  ['kube-system/kube-dns:dns-tcp', 'TCP', 'ERIFXISQEP7F7OF4'],
  ['kube-system/kube-dns:metrics', 'TCP', 'JD5MR3NA4I4DYORP'],
  ['ns1/svc1:p80', 'TCP', 'XPGD46QRK7WJZT7O'],
  ['ns2/svc2:p80', 'TCP', 'GNZBNJ2PO5MGZ6GT'],
  ['ns3/svc3:p80', 'TCP', 'X27LE4BHSL4DOUIK'],
  ['ns4/svc4:p80', 'TCP', '4SW47YFZTEDKD3PK'],
  ['ns5/svc5:p80', 'TCP', 'NUKIZ6OKUXPJNT4C'],
  ['default/web', 'TCP', 'LOLE4ISW44XBNF3G'],
  ['default/sig:m3ua', 'SCTP', 'IYKYG5EEDRKMICAL'],
  ['shop/cart:http', 'TCP', 'I5LIAMPLWKMBJ54B'],
])('the chains of %s over %s end in %s', (key, protocol, id) => {
  expect(chainNames().port(key, protocol)).toEqual({
    cluster: `KUBE-SVC-${id}`,
    local: `KUBE-SVL-${id}`,
    external: `KUBE-EXT-${id}`,
    firewall: `KUBE-FW-${id}`,
  });
});

test.each<[string, Protocol, string, string]>([
  ['ns1/svc1:p80', 'TCP', '10.180.0.1:80', 'SXIVWICOYRO3J4NJ'],
  ['ns2/svc2:p80', 'TCP', '10.180.0.2:80', 'RS4RBKLTHTF2IUXJ'],
  ['ns3/svc3:p80', 'TCP', '10.180.0.3:80', 'OYPFS5VJICHGATKP'],
  ['ns4/svc4:p80', 'TCP', '10.180.0.4:80', 'UKSFD7AGPMPPLUHC'],
  ['ns4/svc4:p80', 'TCP', '10.180.0.5:80', 'C6EBXVWJJZMIWKLZ'],
  ['ns5/svc5:p80', 'TCP', '10.180.0.3:80', 'I77PXRDZVX7PMWMN'],
  ['ns1/svc1:p80', 'TCP', '[fd00:10::5]:80', 'FFJYLBGAQYHKJ5VA'],
  ['default/web', 'TCP', '10.1.2.3:8080', 'I2HXHBF6CA5ULY6U'],
  ['shop/cart:http', 'TCP', '10.244.1.7:8080', 'HR5QIAI7KRESNQ5F'],
  ['shop/cart:http', 'TCP', '10.244.2.9:8080', 'BQDHVMWANCT6EYGM'],
  ['shop/cart:http', 'TCP', '10.244.3.3:8080', 'ZNEKD56SUVBWUDHI'],
])('the chain of %s over %s to %s ends in %s', (key, protocol, endpoint, id) => {
  expect(chainNames().endpoint(key, protocol, endpoint)).toBe(`KUBE-SEP-${id}`);
});

test('ten thousand ports have different hashes of 80 bits', () => {
  const names = chainNames();
  for (let n = 0; n < 10_000; n++) names.port(`ns/svc-${n}`, 'TCP');
  expect(names.collisions()).toEqual([]);
});

test('a repeated name is not a collision', () => {
  const names = chainNames();
  expect(names.port('a/b', 'TCP')).toEqual(names.port('a/b', 'TCP'));
  expect(names.endpoint('a/b', 'TCP', '10.0.0.1:1')).toBe(names.endpoint('a/b', 'TCP', '10.0.0.1:1'));
  expect(names.collisions()).toEqual([]);
});

/** Thirty-two possible names: a hash short enough for its collisions to be had. */
const short = (text: string): string => hash16(text).slice(0, 1);

test('lists all owners of a name, independent of the order of calls', () => {
  const keys = Array.from({ length: 40 }, (_, n) => `ns/svc-${n}`);
  const forwards = chainNames(short);
  const backwards = chainNames(short);
  for (const key of keys) forwards.port(key, 'TCP');
  for (const key of keys.toReversed()) backwards.port(key, 'TCP');
  expect(forwards.collisions()).toEqual(backwards.collisions());
  expect(forwards.collisions().length).toBeGreaterThan(5);
  expect(new Set(forwards.collisions().map((problem) => `${problem.code} ${problem.level}`))).toEqual(
    new Set(['CHAIN_COLLISION error']),
  );
});

test('a collision names the chain and its owners', () => {
  const names = chainNames(() => 'SAME');
  names.port('shop/web:http', 'TCP');
  names.port('shop/cart:http', 'UDP');
  names.endpoint('shop/web:http', 'TCP', '10.0.0.1:80');
  expect(names.collisions().map((problem) => problem.message)).toEqual([
    'Cannot name chain KUBE-SVC-SAME: it would be the chain of both shop/cart:httpudp and shop/web:httptcp',
  ]);
});

import { expect, test } from 'vitest';
import { lineTextMatches, mayMeet, ruleTextMatches } from './text-matches.ts';

const wanted = { addresses: new Set(['10.96.0.10', 'fd00::10']), ports: new Set([30_080]) };

test.each([
  ['a cluster IP', '-m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 -j A', true],
  ['another one', '-m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.11 --dport 80 -j A', false],
  ['an address with the same prefix', '-m comment --comment "x" -m tcp -p tcp -d 10.96.0.100 --dport 80 -j A', false],
  ['IPv6', '-m comment --comment "x" -m tcp -p tcp -d fd00::10 --dport 80 -j A', true],
  ['IPv6 spelled otherwise', '-m comment --comment "x" -m tcp -p tcp -d fd00:0:0::10 --dport 80 -j A', true],
  ['a port of whatever address', '-m comment --comment "x" -m tcp -p tcp --dport 80 -j A', true],
  ['a network', '-m comment --comment "x" -m tcp -p tcp -d 10.97.0.0/16 --dport 80 -j A', true],
  ['another order of matches', '-p tcp -m tcp --dport 80 -d 10.96.0.11 -j A', true],
  ['a comment with an escape', '-m comment --comment "x\\"" -m tcp -p tcp -d 10.96.0.11 --dport 80 -j A', true],
  ['no match at all', '-j A', true],
  ['one more word', '-m comment --comment "x" -m tcp -p tcp -d 10.96.0.11 --dport 80 -j A --random', true],
] as const)('rules of KUBE-SERVICES with %s', (_title, rule, may) => {
  const text = `*nat\n:A - [0:0]\n@node=node-a -A KUBE-SERVICES ${rule}\n-A A -d 10.96.0.10 -j RETURN\nCOMMIT\n`;
  expect(mayMeet(ruleTextMatches(text), wanted)).toBe(may);
});

test.each([
  ['the node port', '-A KUBE-NODEPORTS -m comment --comment shop/web:http -m tcp -p tcp --dport 30080 -j A', true],
  ['another', '-A KUBE-NODEPORTS -m comment --comment shop/web:http -m tcp -p tcp --dport 30081 -j A', false],
  [
    'one without endpoints',
    '-A KUBE-EXTERNAL-SERVICES -m comment --comment "x" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j DROP',
    true,
  ],
  ['the same of a chain of its own', '-A KUBE-SVC-X -m tcp -p tcp --dport 30080 -j A', false],
] as const)('rules with %s', (_title, rule, may) => {
  expect(mayMeet(ruleTextMatches(`*nat\n${rule}\nCOMMIT\n`), wanted)).toBe(may);
});

test.each([
  ['the address', 'add KUBE-CLUSTER-IP 10.96.0.10,tcp:80', true],
  ['another', 'add KUBE-CLUSTER-IP 10.96.0.11,tcp:80', false],
  ['the IPv6 address', '@local=10.244.1.5 add KUBE-6-CLUSTER-IP fd00::10,tcp:80', true],
  ['a network as the third', 'add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.96.0.11,tcp:80,10.96.0.0/24', false],
  ['any node port', 'add KUBE-NODE-PORT-TCP 31000', true],
  ['a virtual server', '-A -t 10.96.0.10:80 -s wrr', true],
  ['a virtual server of IPv6', '-A -t [fd00::10]:80 -s wrr', true],
  ['a virtual server of the node', '-A -t ${node.address}:31000 -s wrr', true],
  ['a real server', '-a -t 10.96.0.11:80 -r 10.96.0.10:80 -m -w 1', true],
  ['others alone', '-a -t 10.96.0.11:80 -r 10.244.1.5:80 -m -w 1', false],
] as const)('lines of mode ipvs with %s', (_title, line, may) => {
  expect(mayMeet(lineTextMatches(`# shop/web\n${line}\n`), wanted)).toBe(may);
});

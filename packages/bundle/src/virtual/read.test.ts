import { expect, test } from 'vitest';
import { readSetLine } from '../../../netfilter/src/virtual/read-ipset.ts';
import { readServerLine } from '../../../netfilter/src/virtual/read-ipvs.ts';
import { findSet, setKeys, setName } from '../../../netfilter/src/rules/sets.ts';
import { printAttributes, printCreate, printReal, printVirtual } from '../../../netfilter/src/virtual/values.ts';

test('names for IPv6 are truncated to the limit of ipset, and stay unique', () => {
  expect(setName('KUBE-LOAD-BALANCER-SOURCE-CIDR', 'ipv6')).toBe('KUBE-6-LOAD-BALANCER-SOURCE-CID');
  const names = setKeys.flatMap((key) => [setName(key, 'ipv4'), setName(key, 'ipv6')]);
  expect(new Set(names).size).toBe(34);
  expect(Math.max(...names.map((name) => name.length))).toBe(31);
  expect(findSet('KUBE-6-LOAD-BALANCER-SOURCE-CID')).toMatchObject({ family: 'ipv6', type: 'hash:ip,port,net' });
});

test.each([
  'create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536',
  'create KUBE-6-LOOP-BACK hash:ip,port,ip family inet6 hashsize 1024 maxelem 131072',
  'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535',
])('%s is read and printed', (line) => {
  const read = readSetLine(line);
  expect('kind' in read && read.kind === 'create' ? printCreate(read.set) : read).toBe(line);
});

test.each([
  ['add KUBE-CLUSTER-IP 10.96.0.10,tcp:80', '10.96.0.10,tcp:80'],
  ['add KUBE-6-CLUSTER-IP fd00:0:0::10,sctp:2905', 'fd00::10,sctp:2905'],
  ['add KUBE-LOOP-BACK 10.244.1.5,udp:53,10.244.1.5', '10.244.1.5,udp:53,10.244.1.5'],
  ['add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.9,tcp:80,0.0.0.0/1', '203.0.113.9,tcp:80,0.0.0.0/1'],
  ['add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.9,tcp:80,198.51.100.7/32', '203.0.113.9,tcp:80,198.51.100.7'],
  ['add KUBE-IPVS-IPS 10.96.0.10', '10.96.0.10'],
  ['add KUBE-NODE-PORT-TCP 30080', '30080'],
])('%s adds %s', (line, entry) => {
  expect(readSetLine(line)).toMatchObject({ kind: 'add', entry });
});

test.each([
  ['a foreign set', 'add blocklist 10.0.0.1', 'not a set of mode ipvs'],
  ['another verb', 'flush KUBE-CLUSTER-IP', 'neither create nor add'],
  ['destroying', 'destroy KUBE-CLUSTER-IP', 'neither create nor add'],
  ['an option of ipset', 'add KUBE-IPVS-IPS 10.0.0.1 -exist', 'trailing data after the entry'],
  ['no entry', 'add KUBE-IPVS-IPS', 'not a valid entry'],
  ['a range of addresses', 'add KUBE-IPVS-IPS 10.0.0.1-10.0.0.9', 'not a valid entry'],
  ['an address of the other family', 'add KUBE-IPVS-IPS fd00::1', 'not a valid entry'],
  ['an entry of another type', 'add KUBE-CLUSTER-IP 10.0.0.1', 'not a valid entry'],
  ['a part too many', 'add KUBE-CLUSTER-IP 10.0.0.1,tcp:80,10.0.0.2', 'not a valid entry'],
  ['four parts', 'add KUBE-LOOP-BACK 10.0.0.1,tcp:80,10.0.0.1,1', 'not a valid entry'],
  ['another protocol', 'add KUBE-CLUSTER-IP 10.0.0.1,icmp:8', 'not a valid entry'],
  ['port 0', 'add KUBE-CLUSTER-IP 10.0.0.1,tcp:0', 'not a valid entry'],
  ['a range of ports', 'add KUBE-NODE-PORT-TCP 30000-30100', 'not a valid entry'],
  ['a network of everything', 'add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,0.0.0.0/0', 'not a valid entry'],
  ['a network with host bits', 'add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,10.0.0.1/8', 'not a valid entry'],
  [
    'another type than the set has',
    'create KUBE-IPVS-IPS hash:net family inet hashsize 1024 maxelem 65536',
    'is not created by',
  ],
  [
    'a size that is no power of two',
    'create KUBE-IPVS-IPS hash:ip family inet hashsize 1024 maxelem 70000',
    'is not created by',
  ],
  ['a smaller set', 'create KUBE-IPVS-IPS hash:ip family inet hashsize 1024 maxelem 1024', 'is not created by'],
  ['a time-out', 'create KUBE-IPVS-IPS hash:ip family inet hashsize 1024 maxelem 65536 timeout 5', 'is not created by'],
])('%s is refused', (_title, line, reason) => {
  const read = readSetLine(line);
  expect('error' in read ? read.error : read).toContain(reason);
});

test.each([
  '-A -t 10.96.0.10:80 -s rr',
  '-A -u 10.96.0.10:53 -s wrr -p 600',
  '-A --sctp-service [fd00::10]:2905 -s lc -p 600 -M 128',
  '-A -t 10.96.0.10:80 -s mh -b mh-fallback,mh-port',
  '-A -t 10.96.0.10:80 -s sh -b sh-port',
  '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1',
  '-a -t [fd00::10]:80 -r [fd00::5]:8080 -m -w 65535',
])('%s is read and printed', (line) => {
  const read = readServerLine(line);
  expect(print(read)).toBe(line);
});

function print(read: ReturnType<typeof readServerLine>): string {
  if ('error' in read) return read.error;
  if (read.kind === 'timeouts') return JSON.stringify(read);
  if (read.kind === 'real') return `-a ${printVirtual(read.of)}${printReal(read.server)}`;
  return `-A ${printVirtual(read.server)}${printAttributes(read.server)}`;
}

test('time-outs are read', () => {
  expect(readServerLine('--set 900 0 300')).toEqual({
    kind: 'timeouts',
    timeouts: { tcp: 900, tcpFin: 0, udp: 300 },
  });
});

test.each([
  ['clearing everything', '-C', 'none of'],
  ['deleting', '-D -t 10.96.0.10:80', 'none of -A'],
  ['a firewall mark', '-A -f 1 -s rr', 'none of -t'],
  ['another scheduler', '-A -t 10.96.0.10:80 -s ovf', '-s takes'],
  ['no scheduler', '-A -t 10.96.0.10:80', '-s takes'],
  ['one-packet scheduling', '-A -u 10.96.0.10:53 -s rr -o', 'not valid at this position'],
  ['an affinity of two days', '-A -t 10.96.0.10:80 -s rr -p 172800', '-p takes'],
  ['a mask in IPv4', '-A -t 10.96.0.10:80 -s rr -p 600 -M 255.255.255.0', '-M 128'],
  ['no mask in IPv6', '-A -t [fd00::1]:80 -s rr -p 600', '-M 128'],
  ['flags of another scheduler', '-A -t 10.96.0.10:80 -s rr -b mh-port', '-b takes'],
  ['flags out of order', '-A -t 10.96.0.10:80 -s mh -b mh-port,mh-fallback', '-b takes'],
  ['words out of order', '-A -t 10.96.0.10:80 -p 600 -s rr', '-s takes'],
  ['another spelling of an address', '-A -t [fd00:0::1]:80 -s rr', 'canonical form'],
  ['no port', '-A -t 10.96.0.10 -s rr', 'not an address with a port'],
  ['a name', '-A -t localhost:80 -s rr', 'not an address with a port'],
  ['direct routing', '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -g -w 1', 'of the form'],
  ['no weight', '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m', 'of the form'],
  ['a weight too great', '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 65536', '-w takes'],
  ['a real server of the other family', '-a -t 10.96.0.10:80 -r [fd00::1]:80 -m -w 1', 'not an ipv4 address'],
  ['trailing words after the weight', '-a -t 10.96.0.10:80 -r 10.244.1.5:80 -m -w 1 -x 5', 'of the form'],
  ['two time-outs', '--set 900 120', '--set takes'],
  ['a time-out of a year', '--set 31536000 0 0', '--set takes'],
  ['two spaces', '-A -t  10.96.0.10:80 -s rr', 'not an address with a port'],
])('%s is refused', (_title, line, reason) => {
  const read = readServerLine(line);
  expect('error' in read ? read.error : read).toContain(reason);
});

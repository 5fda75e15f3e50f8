import { type BundleFiles, serviceFile } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { Memory } from './memory.ts';
import { indexMatches, relevantTo } from './relevance.ts';

const file = (name: string): string => serviceFile('default', 'shop', name, 'iptables');

/** A Service's file that sends its address to an endpoint. */
function service(name: string, address: string, endpoint: string): readonly [string, string] {
  const dispatch = `-A KUBE-SERVICES -m comment --comment "shop/${name}:http cluster IP" -m tcp -p tcp -d ${address} --dport 80 -j KUBE-SVC-${name.toUpperCase()}`;
  const send = `-A KUBE-SEP-${name.toUpperCase()} -m comment --comment "shop/${name}:http" -m tcp -p tcp -j DNAT --to-destination ${endpoint}`;
  return [file(name), `*nat\n${dispatch}\n${send}\nCOMMIT\n`];
}

const files: BundleFiles = new Map([
  service('one', '10.96.0.1', '10.96.0.2:80'),
  service('two', '10.96.0.2', '10.244.1.5:80'),
  service('far', '10.96.0.3', '10.244.1.6:80'),
  [file('all'), '*filter\n-A KUBE-SERVICES -j KUBE-SVC-ALL\nCOMMIT\n'],
  [
    file('port'),
    '*nat\n-A KUBE-NODEPORTS -m comment --comment shop/port:http -m tcp -p tcp --dport 30080 -j KUBE-EXT-AAAAAAAAAAAAAAAA\nCOMMIT\n',
  ],
]);

test.each([
  ['the address of a Service', 'tcp 10.96.0.2 80', ['all', 'two']],
  ['an address whose endpoint is another Service', 'tcp 10.96.0.1 80', ['all', 'one', 'two']],
  ['another port of a Service', 'tcp 10.96.0.2 81', ['all']],
  ['another protocol', 'udp 10.96.0.2 80', ['all']],
  ['a node port', 'tcp 192.0.2.11 30080', ['all', 'port']],
  ['nothing of any Service', 'tcp 198.51.100.7 80', ['all']],
] as const)('a packet to %s can match only these files', (_title, exact, names) => {
  const index = indexMatches(files, 'default', 'iptables', 'ipv4', new Memory());
  expect(index.relevant(exact)).toEqual(names.map(file));
  expect(relevantTo(exact, files, 'default', 'iptables', 'ipv4', new Memory())).toEqual(names.map(file));
});

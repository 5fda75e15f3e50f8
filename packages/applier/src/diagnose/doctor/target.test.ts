import { emptyNft, printTarget, readTarget } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { type Frontend } from './facts.ts';
import { frontendsOf } from './target.ts';

test.each([
  ['shop/web', 'shop/web'],
  ['shop/web:http', 'shop/web:http'],
  ['10.96.0.10', '10.96.0.10'],
  ['10.96.0.10:80', '10.96.0.10:80'],
  ['[fd00:0::10]:80', '[fd00::10]:80'],
  ['fd00::10', 'fd00::10'],
])('reads %s', (text, printed) => {
  const target = readTarget(text);
  expect(target && printTarget(target)).toBe(printed);
});

test.each([
  '',
  'web',
  'shop/',
  'Shop/web',
  '10.96.0.300',
  '10.96.0.10:0',
  '10.96.0.10:99999',
  'shop/web; reboot',
  '--live',
])('refuses %j', (text) => {
  expect(readTarget(text)).toBeUndefined();
});

const state = { families: {}, sysctls: new Map() };
const frontend = (service: string, address: string | undefined, port: number): Frontend => ({
  family: 'ipv4',
  protocol: 'tcp',
  service,
  address,
  port,
  endpoints: [],
  affinitySeconds: [],
});

test('finds the frontends of a Service, of one of its ports, of an address, and of a node port at an address of the node', () => {
  const frontends = [
    frontend('shop/web:http', '10.96.0.10', 80),
    frontend('shop/web:https', '10.96.0.10', 443),
    frontend('shop/web-2:http', '10.96.0.11', 80),
    frontend('shop/web:http', undefined, 30_080),
  ];
  const interfaces = [{ name: 'eth0', isUp: true, mtu: 1500, kind: '', addresses: ['192.0.2.11'] }];
  const found = (text: string): readonly string[] =>
    frontendsOf(readTarget(text) ?? { kind: 'all' }, { frontends, mode: 'iptables', state }, interfaces).map(
      ({ service, port }) => `${service} ${port}`,
    );
  expect(found('shop/web')).toEqual(['shop/web:http 80', 'shop/web:https 443', 'shop/web:http 30080']);
  expect(found('shop/web:https')).toEqual(['shop/web:https 443']);
  expect(found('10.96.0.11')).toEqual(['shop/web-2:http 80']);
  expect(found('192.0.2.11:30080')).toEqual(['shop/web:http 30080']);
  expect(found('192.0.2.12:30080')).toEqual([]);
});

test.each([
  ['nftables', 'localhost-served localhost-listener', '127.0.0.1', 2],
  ['nftables', 'localhost-served localhost-listener', '127.0.0.2', 0],
  ['nftables', 'localhost-served localhost-listener', '::1', 1],
  ['nftables', 'localhost-refused', '127.0.0.1', 0],
  ['nftables', 'localhost-refused', '::1', 0],
  ['nftables', '', '127.0.0.1', 0],
  ['ipvs', '', '127.0.0.1', 0],
  ['iptables', '', '127.0.0.1', 2],
] as const)('node ports of mode %s with a table %j answer on %s: %s', (mode, table, address, count) => {
  const frontends = (['ipv4', 'ipv6'] as const).flatMap((family) =>
    (['tcp', 'udp'] as const).map((protocol) => ({ ...frontend('shop/web', undefined, 30_080), family, protocol })),
  );
  const nft = { ...emptyNft, settings: [`table 4 address ${table}`] };
  const desired = { frontends, mode, state: { ...state, ...(mode === 'nftables' && { nft }) } };
  const interfaces = [{ name: 'lo', isUp: true, mtu: 1500, kind: '', addresses: ['127.0.0.1', '127.0.0.2', '::1'] }];
  expect(frontendsOf({ kind: 'address', address, port: 30_080 }, desired, interfaces)).toHaveLength(count);
});

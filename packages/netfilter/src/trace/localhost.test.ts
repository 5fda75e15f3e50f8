import { expect, test } from 'vitest';
import { emptyProgram } from '../link/program.ts';
import { frontendLines } from '../nftables/frontend.ts';
import { atLocalhost } from '../nftables/localhost.ts';
import { emptyNft } from '../nftables/state.ts';
import { tableOptions } from '../nftables/table.ts';
import type { Packet } from '../packet/packet.ts';
import { summarise, trace } from './trace.ts';

/** Node port 30080 of TCP and UDP with one endpoint. */
const stateOf = (table: string): typeof emptyNft => {
  const plain = { isClusterIP: false, outside: 'cluster', ranges: [], local: [] } as const;
  const of = (endpoint: string): readonly string[] => frontendLines({ ...plain, endpoints: [endpoint] });
  const keys = ['tcp', 'udp'].flatMap((protocol) => [
    [`0.0.0.0 . ${protocol} . 30080`, of('10.244.1.7 . 8080')] as const,
    [`:: . ${protocol} . 30080`, of('fd00::7 . 8080')] as const,
  ]);
  return { ...emptyNft, settings: [`table 4 address ${table}`, 'node 127.0.0.0/8'], frontends: new Map(keys) };
};

const outcome = (table: string, destination: string, more: Partial<Packet> = {}): string => {
  const family = destination.includes(':') ? 'ipv6' : 'ipv4';
  const packet = { family, source: destination, destination, protocol: 'tcp', port: 30_080, ...more } as const;
  const world = { localAddresses: ['127.0.0.1', '127.0.0.2', '::1'], nft: stateOf(table) };
  return summarise(trace(emptyProgram, packet, world));
};

const served = { table: 'masquerade dnat 10.244.1.7:8080', listener: 'masquerade dnat [fd00::7]:8080' };
const said = { ...served, refused: 'reject', left: 'pass' } as const;

test.each([
  '',
  'localhost-refused',
  'localhost-refused localhost-listener',
  'localhost-served',
  'localhost-served localhost-listener',
])('a program of the node meets at each loopback address what is said of a table %j', (table) => {
  for (const protocol of ['tcp', 'udp'] as const)
    for (const address of ['127.0.0.1', '127.0.0.2', '::1'])
      expect(`${address} ${protocol} ${outcome(table, address, { protocol })}`).toBe(
        `${address} ${protocol} ${said[atLocalhost(tableOptions(stateOf(table).settings), address, protocol)]}`,
      );
});

test('no other host reaches a loopback address of the node', () => {
  const table = 'localhost-served localhost-listener';
  const foreign = { source: 'fd00::99', in: 'eth0' };
  expect(outcome(table, '::1', foreign)).toBe('pass');
  expect(outcome(table, '::1', { in: 'eth0' })).toBe('pass');
  expect(outcome(table, '127.0.0.1', { source: '192.0.2.99', in: 'eth0' })).toBe('drop');
});

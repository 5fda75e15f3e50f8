// @module-tag quick
import { expect, test } from 'vitest';
import { ofOwnPackets, tryConnection } from './live.ts';

test('tells of a UDP endpoint to which the kernel refuses to connect', async () => {
  // A broadcast address, without the option for it: EACCES, and no packet.
  expect(await tryConnection({ address: '255.255.255.255', port: 9, protocol: 'udp' })).toBe('unreachable');
});

test('keeps the trace of its own packets alone', () => {
  const lines = [
    'trace id 1a ip raw OUTPUT packet: oif "lo" ip saddr 192.0.2.1 ip daddr 10.96.0.10 tcp sport 40000 tcp dport 80 tcp flags == syn',
    'trace id 1a ip filter OUTPUT policy drop',
    'trace id 2b ip raw OUTPUT packet: oif "lo" ip saddr 192.0.2.1 ip daddr 10.96.0.10 tcp sport 4000 tcp dport 40000 tcp flags == syn',
    'trace id 2b ip filter OUTPUT policy drop',
    '',
  ];
  expect(ofOwnPackets(lines, 40_000)).toEqual(lines.slice(0, 2));
  expect(ofOwnPackets(lines, 4_000)).toEqual(lines.slice(2, 4));
});

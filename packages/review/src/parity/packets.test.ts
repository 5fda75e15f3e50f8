import type { Family } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { Destination, FlowOutcome } from '../flows/flow.ts';
import { listener, unseenListener } from './packets.ts';

const outcome = (verdict: string) => ({ branches: [{ verdict }] }) as unknown as FlowOutcome;
const seen = (table: string) => ({ nftTables: [{ family: 'inet', name: table, objects: [] }] }) as never;
const at = (family: Family, kind: Destination['kind']) => ({ family, destination: { kind } as Destination });

test('a listener on ::1 cannot be seen in rules', () => {
  expect(unseenListener(seen('sluice'), at('ipv6', 'localhost'), outcome('pass'), outcome('dnat'))).toBe(listener);
});

test.each([
  ['of a table of kube-proxy', 'kube-proxy', 'ipv6', 'localhost', 'pass', 'dnat'],
  ['in IPv4, where rules serve', 'sluice', 'ipv4', 'localhost', 'pass', 'dnat'],
  ['at another address', 'sluice', 'ipv6', 'node-port', 'pass', 'dnat'],
  ['that is refused', 'sluice', 'ipv6', 'localhost', 'reject', 'dnat'],
  ['that the bundle does not serve', 'sluice', 'ipv6', 'localhost', 'pass', 'reject'],
] as const)('a packet %s is judged by rules', (_, table, family, kind, observed, desired) => {
  expect(unseenListener(seen(table), at(family, kind), outcome(observed), outcome(desired))).toBeUndefined();
});

import { expect, test } from 'vitest';
import type { TraceFlow } from '../packet/flow.ts';
import { bitTestOf, flagsIn } from './bits.ts';
import type { LiveHook } from './rule.ts';
import { networkIn } from './tests.ts';

const flags = { payload: { protocol: 'tcp', field: 'flags' } };
const masked = (...names: readonly string[]): object => ({ '&': [flags, names] });
const flow = { mark: 0x4000, unknownMark: 0, connectionMark: 0, translated: true, masquerade: false } as TraceFlow;
const hook = (rest: Partial<LiveHook>): LiveHook => ({ protocol: 'tcp', state: 'NEW', ...rest }) as LiveHook;
const first = hook({});
const answer = hook({ state: 'ESTABLISHED', isReply: true });
const later = hook({ state: 'ESTABLISHED' });

/** Of a first packet, its answer, and a later one; undefined: not known. */
test.each([
  ['in', flags, 'syn', [1, 1, 0]],
  ['==', masked('fin', 'syn', 'rst', 'ack'), 'syn', [1, 0, 0]],
  ['==', masked('fin', 'syn'), ['fin', 'syn'], [0, 0, 0]],
  ['!', flags, ['fin', 'syn', 'rst', 'psh', 'ack', 'urg'], [0, 0, 0]],
  ['!=', flags, 'syn', [0, 1, 1]],
  ['==', flags, { set: ['syn', { '|': ['syn', 'ack'] }] }, [1, 1, 0]],
  ['in', flags, 'psh', [0, 0, undefined]],
  ['in', { ct: { key: 'status' } }, 'dnat', [1, 1, 1]],
  ['==', { '&': [{ ct: { key: 'mark' } }, 128] }, 128, [0, undefined, undefined]],
  ['==', { '&': [{ meta: { key: 'mark' } }, 0x4000] }, 0x4000, [1, 1, 1]],
] as const)('%s %j %j', (op, left, right, expected) => {
  const bits = bitTestOf(op, left, right);
  expect([first, answer, later].map((at) => bits?.(flow, at))).toEqual(expected);
});

test('no packet of UDP has flags of TCP, nor lacks them', () => {
  const udp = hook({ protocol: 'udp' });
  expect(['in', '!'].map((op) => bitTestOf(op, flags, 'syn')?.(flow, udp))).toEqual([0, 0]);
});

test('names of flags', () => {
  expect(['FIN,SYN,RST,ACK', 'ALL', 'NONE', 'SYN,OTHER'].map(flagsIn)).toEqual([0x17, 0x3f, 0, undefined]);
});

test('addresses of IPv4 in those of IPv6 are read as tools print them', () => {
  expect(networkIn('::ffff:0.0.0.0/96')).toEqual(networkIn('::ffff:0:0/96'));
});

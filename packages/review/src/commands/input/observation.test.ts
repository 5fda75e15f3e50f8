import { observationOf, printObservation, textsOf } from '@sluice/bundle';
import { readLiveTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { placesIn } from './observation.ts';

const many = Array.from(
  { length: 20_000 },
  (_, n) => `-A FORWARD -s 10.0.${n >> 8}.${n & 255}/32 -m u32 --u32 0x0 -j DROP`,
);
const chain = { family: 'ip', table: 'other', name: 'c', type: 'filter', hook: 'forward', prio: 0, policy: 'accept' };
const drop = {
  family: 'ip',
  table: 'other',
  chain: 'c',
  expr: [{ xt: { type: 'match', name: 'u32' } }, { drop: null }],
};
const seen = observationOf(
  { node: 'node-a', tools: {} },
  textsOf(
    new Map([
      ['iptables-save.txt', `*filter\n:FORWARD ACCEPT [0:0]\n${many.join('\n')}\nCOMMIT\n`],
      ['nft.json', JSON.stringify({ nftables: [{ metainfo: {} }, { chain }, { rule: drop }] })],
    ]),
  ),
);
const text = [...printObservation(seen)].join('');
const lineOf = (part: string): string => `seen.json:${text.split('\n').findIndex((line) => line.includes(part)) + 1}`;

test('each of many rules has its line, in time that grows with the file alone', () => {
  const placeOf = placesIn('seen.json', text);
  const [first] = many.map(placeOf);
  expect(first).toBe(lineOf('10.0.0.0/32'));
  expect(new Set(many.map(placeOf)).size).toBe(many.length);
  expect(placeOf('-A FORWARD -j ACCEPT')).toBeUndefined();
});

test('a rule of nftables is found by the text with which comparisons name it', () => {
  const [table] = seen.nftTables;
  const [rule] = (table ? readLiveTable(table).chains.get('c')?.rules() : undefined) ?? [];
  expect(rule?.unread).toBeDefined();
  expect(placesIn('seen.json', text)(rule?.text ?? '')).toBe(lineOf('"rule"'));
});

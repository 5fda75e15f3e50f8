import { expect, test } from 'vitest';
import { changesBetween, changesBytesMax, RecentChanges } from './recent-changes.ts';
import { serviceFile } from '../tree.ts';

const complete = (n: number): string => `sha256:${n.toString(16).padStart(64, '0')}\n`;
const path = (name: string): string => serviceFile('default', 'shop', name, 'nft');

test('tells what changed since any of the last publications', () => {
  const changes = new RecentChanges(complete(1))
    .with([path('a'), path('b')], complete(2))
    .with([path('b')], complete(3));
  expect(changesBetween(changes.text, complete(1), complete(3))).toEqual(new Set([path('a'), path('b')]));
  expect(changesBetween(changes.text, complete(2), complete(3))).toEqual(new Set([path('b')]));
  expect(changesBetween(changes.text, complete(3), complete(3))).toEqual(new Set());
});

test('a state that comes back counts from its last time', () => {
  const changes = new RecentChanges(complete(1)).with([path('a')], complete(2)).with([path('a')], complete(1));
  expect(changesBetween(changes.text, complete(1), complete(1))).toEqual(new Set());
});

test('tells nothing of other states, of a file that is half written, or with a path that no bundle has', () => {
  const { text } = new RecentChanges(complete(1)).with([path('a')], complete(2));
  expect(changesBetween(text, complete(9), complete(2))).toBeUndefined();
  expect(changesBetween(text, complete(1), complete(9))).toBeUndefined();
  for (let length = 0; length < text.length; length++)
    expect(changesBetween(text.slice(0, length), complete(1), complete(2)), `${length}`).toBeUndefined();
  for (const foreign of ['../../etc/passwd', '/etc/passwd', '.sluice-complete', 'SHA256SUMS', '', 'profiles/x'])
    expect(changesBetween(`${complete(1)}${foreign}\n${complete(2)}`, complete(1), complete(2))).toBeUndefined();
});

test('keeps the last publications, within the size that is read', () => {
  const long = (n: number): string => serviceFile('p'.repeat(63), 'n'.repeat(63), `${n}${'s'.repeat(50)}`, 'ip6tables');
  let changes = new RecentChanges(complete(0));
  for (let n = 1; n <= 100; n++) changes = changes.with([path(`s${n}`)], complete(n));
  expect(changesBetween(changes.text, complete(84), complete(100))?.size).toBe(16);
  expect(changesBetween(changes.text, complete(83), complete(100))).toBeUndefined();
  const many = Array.from({ length: 900 }, (_, n) => long(n));
  changes = changes.with(many, complete(101)).with(many, complete(102));
  expect(changesBetween(changes.text, complete(101), complete(102))?.size).toBe(900);
  expect(changesBetween(changes.text, complete(100), complete(102))).toBeUndefined();
  expect(changes.text.length).toBeLessThan(changesBytesMax);
  changes = changes.with([...many, ...many], complete(103));
  expect(changes.text).toBe(complete(103));
});

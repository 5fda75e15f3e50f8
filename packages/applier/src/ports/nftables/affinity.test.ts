import { expect, test } from 'vitest';
import { affinityAlarm, type AffinityFill } from './affinity.ts';

const fill = (clients: number, more: Partial<AffinityFill> = {}): AffinityFill => ({
  family: 'ipv4',
  clients,
  size: 1_000,
  ...more,
});

test.each<readonly [string, readonly AffinityFill[], boolean, boolean]>([
  ['below 80 % there is none', [fill(799)], false, false],
  ['at 80 % it is raised', [fill(800)], false, true],
  ['at 70 % a raised one stays', [fill(700)], true, true],
  ['below 70 % it ends', [fill(699)], true, false],
  ['one family is enough', [fill(1), fill(900, { family: 'ipv6' })], false, true],
  ['more clients than can be counted count as that many', [fill(900, { isAtLeast: true })], false, true],
  [
    'a large map whose clients cannot be counted raises none',
    [fill(900, { size: 16_000, isAtLeast: true })],
    false,
    false,
  ],
  ['without clients there is none', [], true, false],
])('alarm of the affinity map: %s', (_title, fills, isRaised, expected) => {
  expect(affinityAlarm(fills, isRaised) !== undefined).toBe(expected);
});

test('the alarm names the family and its fill', () => {
  expect(affinityAlarm([fill(10), fill(850, { family: 'ipv6' })], false)).toBe(
    '850 of 1000 clients of session affinity are remembered in ipv6 (85 %): when it is full, further clients of Services with session affinity get no endpoint',
  );
});

// @module-tag quick
import { expect, test } from 'vitest';
import { differencesOf, type NamedDifference } from './differences.ts';

const named: readonly NamedDifference[] = [
  { test: '[sig-network] KubeProxy should update metric', verdict: 'failed', reason: 'asks nfacct', systems: ['ours'] },
  { test: '[sig-network] Services of a cloud', verdict: 'skipped', reason: 'no cloud' },
];
const differences = (verdicts: Readonly<Record<string, 'passed' | 'failed' | 'skipped'>>, title = 'ours'): object =>
  Object.fromEntries(
    differencesOf({ title }, new Map(Object.entries(verdicts)), new Map([['[sig-network] x', 'no answer']]), named),
  );

test('a failure and a skip without a name are differences', () => {
  expect(
    differences({ '[sig-network] x': 'failed', '[sig-network] y': 'skipped', '[sig-network] z': 'passed' }),
  ).toEqual({
    '[sig-network] x': 'no answer',
    '[sig-network] y': 'skipped',
  });
});

test('what is named is none, for its system alone, and is one where it passes', () => {
  const metric = '[sig-network] KubeProxy should update metric for tracking accepted packets';
  expect(differences({ [metric]: 'failed', '[sig-network] Services of a cloud': 'skipped' })).toEqual({});
  expect(differences({ [metric]: 'failed' }, 'theirs')).toEqual({ [metric]: 'failed' });
  expect(differences({ [metric]: 'passed' })).toEqual({ [metric]: 'passed, named as failed' });
});

import { expect, test } from 'vitest';
import { choosesEndpoint, isDispatch, isGroup, isOfEndpoint, isOfFrontend, plainName } from './chain-names.ts';

test.each([
  ['KUBE-SEPX', [false, false, false]],
  ['KUBE-SVCX', [false, false, false]],
  ['KUBE-SEP-NPX46M4PTMTKRN6Y', [false, true, false]],
  ['SLU-GRP-NPX46M4PTMTKRN6Y.a1', [false, true, false]],
  ['KUBE-SVL-NPX46M4PTMTKRN6Y', [true, false, true]],
  ['SLU-FW-NPX46M4PTMTKRN6Y.a1', [false, false, true]],
  ['SVC-NPX46M4PTMTKRN6Y', [false, false, false]],
])('%s chooses endpoints, is of an endpoint, is of a frontend: %s', (name, expected) => {
  expect([choosesEndpoint(name), isOfEndpoint(name), isOfFrontend(name)]).toEqual(expected);
});

test('only layout tree has groups', () => {
  expect(['SLU-GRP-NPX46M4PTMTKRN6Y.a1', 'KUBE-GRP-NPX46M4PTMTKRN6Y'].map(isGroup)).toEqual([true, false]);
});

test('a branch of a dispatch tree has a tag', () => {
  const plain = ['SLUICE-T-2RU4R2FUDKAURQV7.67', 'SLUICE-R', 'SLUICE-T', 'SLU-SVC-NPX46M4PTMTKRN6Y.67'].map(plainName);
  expect(plain.map(isDispatch)).toEqual([true, false, false, false]);
  expect(plain.slice(1)).toEqual(['SLUICE-R', 'SLUICE-T', 'SLU-SVC-NPX46M4PTMTKRN6Y']);
});

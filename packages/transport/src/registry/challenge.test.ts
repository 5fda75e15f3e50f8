import { expect, test } from 'vitest';
import { readChallenge } from './authority.ts';

const bearer = { kind: 'bearer', realm: 'https://auth.example.com/token', service: undefined, scope: undefined };

test.each([
  ['Basic realm="x"', { kind: 'basic' }],
  ['BASIC', { kind: 'basic' }],
  ['Bearer realm="https://auth.example.com/token"', bearer],
  ['bearer realm=https://auth.example.com/token', bearer],
  [
    'Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull,push"',
    { ...bearer, service: 'r', scope: 'repository:a/b:pull,push' },
  ],
  ['Bearer realm="https://auth.example.com/token", realm="https://evil.example.com"', bearer],
  ['Bearer service="a \\"b\\"", realm="https://auth.example.com/token"', { ...bearer, service: 'a "b"' }],
  ['Negotiate, Basic realm="x"', { kind: 'basic' }],
] as const)('reads %s', (header, challenge) => {
  expect(readChallenge(header)).toEqual(challenge);
});

test.each([
  [undefined],
  [''],
  ['Negotiate'],
  ['Digest realm="Basic"'],
  ['Bearer service="x"'],
  [`Basic ${'x'.repeat(9000)}`],
])('finds no supported challenge in %s', (header) => {
  expect(readChallenge(header)).toBeUndefined();
});

import { expect, test } from 'vitest';
import { isLoopback } from '../http/addresses.ts';
import { readReference } from './reference.ts';

const digest = `sha256:${'a'.repeat(64)}`;

test.each([
  ['registry.example.com/shop:42', { registry: 'registry.example.com', repository: 'shop', tag: '42' }],
  ['localhost/a/b__c/d-e.f:v1', { registry: 'localhost', repository: 'a/b__c/d-e.f', tag: 'v1' }],
  [`127.0.0.1:5000/x@${digest}`, { registry: '127.0.0.1:5000', repository: 'x', digest }],
  [`[::1]:5000/x:t@${digest}`, { registry: '[::1]:5000', repository: 'x', tag: 't', digest }],
  ['registry.example.com/shop', { registry: 'registry.example.com', repository: 'shop' }],
] as const)('reads %s', (text, reference) => {
  expect(readReference(text)).toEqual(reference);
});

test.each([
  ['a name with an implied public registry', 'library/shop:42'],
  ['no repository', 'registry.example.com/'],
  ['a repository with ..', 'registry.example.com/../v2/x:1'],
  ['a repository in capitals', 'registry.example.com/Shop:1'],
  ['a tag with a slash', 'registry.example.com/shop:a/b'],
  ['a tag that is too long', `registry.example.com/shop:${'t'.repeat(129)}`],
  ['a digest of another kind', `registry.example.com/shop@md5:${'a'.repeat(32)}`],
  ['a digest in capitals', `registry.example.com/shop@sha256:${'A'.repeat(64)}`],
  ['two digests', `registry.example.com/shop@${digest}@${digest}`],
  ['a user before the host', 'alice@registry.example.com/shop:1'],
  ['a scheme', 'https://registry.example.com/shop:1'],
  ['a query', 'registry.example.com/shop?x=1'],
  ['a host with a line feed', 'registry.example.com\n/shop:1'],
  ['nothing', ''],
])('refuses %s', (_title, text) => {
  expect(readReference(text)).toBeUndefined();
});

test.each([
  ['localhost', true],
  ['127.8.9.10', true],
  ['[::1]', true],
  ['127.0.0.1.example.com', false],
  ['localhost.example.com', false],
  ['10.0.0.1', false],
])('%s is a loopback address: %s', (host, stays) => {
  expect(isLoopback(host)).toBe(stays);
});

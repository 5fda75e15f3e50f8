import { expect, test } from 'vitest';
import { focusOf } from './cluster.ts';
import { hashOf, readHash } from './router.ts';

test.each([
  ['', { view: '', path: [] }],
  ['#flows', { view: 'flows', path: [] }],
  ['#services/shop%2Fweb', { view: 'services', path: ['shop/web'] }],
  ['#services/50%', { view: 'services', path: ['50%'] }],
])('%j is read as %j', (hash, route) => {
  expect(readHash(hash)).toEqual(route);
});

test.each([
  ['services', 'shop/web'],
  ['cluster', 'namespace', 'a/b#c', 'zone', '100% <x>'],
])('an address of %s is read as it was written', (view, ...path) => {
  expect(readHash(hashOf(view, ...path))).toEqual({ view, path });
});

test.each([
  [[], {}],
  [['namespace', 'shop'], { namespace: 'shop' }],
  [['zone', 'a'], { zone: 'a' }],
  [['namespace', 'zone', 'zone', 'namespace'], { namespace: 'zone', zone: 'namespace' }],
  [['namespace'], {}],
])('the path %j looks into %j', (path, focus) => {
  expect(focusOf(path)).toEqual(focus);
});

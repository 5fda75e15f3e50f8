import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { IgnoredObjectsWatch } from './report.ts';

const of = (...names: readonly string[]): { readonly ignored: readonly Problem[] } => ({
  ignored: names.map((name) => ({
    code: 'SLICE_WITHOUT_SERVICE',
    level: 'warning',
    object: `EndpointSlice shop/${name}`,
    message: 'Cannot use it',
    hint: 'Add the label',
  })),
});

test('finds an ignored slice once, and again after it was gone', () => {
  const watch = new IgnoredObjectsWatch();
  const found = [of('a'), of('a'), of('a', 'b'), of('b'), of('a', 'b')].map((now) =>
    watch.now(now).map(({ object }) => object?.replace('EndpointSlice ', '')),
  );
  expect(found).toEqual([['shop/a'], [], ['shop/b'], [], ['shop/a']]);
});

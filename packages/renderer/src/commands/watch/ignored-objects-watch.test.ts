import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { IgnoredObjectsWatch } from './ignored-objects-watch.ts';

const of = (...names: readonly string[]): { readonly ignored: readonly Problem[] } => ({
  ignored: names.map((name) => ({
    code: 'SLICE_WITHOUT_SERVICE',
    level: 'warning',
    object: `EndpointSlice shop/${name}`,
    message: 'Cannot use it',
    hint: 'Add the label',
  })),
});

test('logs an ignored slice once, and again after it was gone', () => {
  const output: string[] = [];
  const warn = (_details: object, message: string): void => void output.push(...(message.match(/shop\/\w+/g) ?? []));
  const not = (): never => {
    throw new Error('not a warning');
  };
  const watch = new IgnoredObjectsWatch({ debug: not, info: not, warn, error: not, fatal: not });
  for (const now of [of('a'), of('a'), of('a', 'b'), of('b'), of('a', 'b')]) watch.now(now);
  expect(output).toEqual(['shop/a', 'shop/b', 'shop/a']);
});

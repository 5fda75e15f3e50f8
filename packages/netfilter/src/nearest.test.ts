import { expect, test } from 'vitest';
import { namesNear } from './nearest.ts';

test('names the nearest first, and how many there are', () => {
  const names = Array.from({ length: 300 }, (_, at) => `aa/svc-${at}`);
  expect(namesNear('shop/wbe', [...names, 'shop/web', 'shop/api'])).toMatch(
    /^shop\/web, shop\/api, .*, … \(302 in all\)$/,
  );
  expect(namesNear('shop/wbe', ['shop/web'])).toBe('shop/web');
});

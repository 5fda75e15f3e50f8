import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import { fit, pan, start, zoom } from './viewport.ts';

const content = { width: 1100, height: 9000 };
const box = { width: 1200, height: 600 };

test('a drawing starts at its top, readable on a telephone', () => {
  expect(start(box, content).scale).toBe(1);
  expect(start({ width: 330, height: 400 }, content)).toMatchObject({ x: -20, y: -20, scale: 0.8 });
});

test('fit shows all of it', () => {
  const { y, scale } = fit(box, content);
  expect(content.height * scale).toBeLessThanOrEqual(box.height);
  expect(y).toBeLessThanOrEqual(0);
});

test('of a drawing of thousands fit shows what can be told apart', () => {
  expect(fit(box, { width: 1100, height: 900_000 }).scale).toBe(0.06);
});

test('the point under the pointer stays where it is', () => {
  const view = pan({ ...start(box, content), scale: 2 }, 500, 2000, box, content);
  const at = { x: 400, y: 300 };
  const next = zoom(view, 1.2, at, box, content);
  expect(next.x + at.x / next.scale).toBeCloseTo(view.x + at.x / view.scale);
  expect(next.y + at.y / next.scale).toBeCloseTo(view.y + at.y / view.scale);
});

test('no movement leaves the drawing', () => {
  const move = fc.oneof(
    fc.record({ dx: fc.integer({ min: -5000, max: 5000 }), dy: fc.integer({ min: -50_000, max: 50_000 }) }),
    fc.record({ factor: fc.double({ min: 0.1, max: 10, noNaN: true }), x: fc.nat(1200), y: fc.nat(600) }),
  );
  fc.assert(
    fc.property(fc.array(move, { maxLength: 20 }), (moves) => {
      let view = start(box, content);
      for (const one of moves)
        view = 'factor' in one ? zoom(view, one.factor, one, box, content) : pan(view, one.dx, one.dy, box, content);
      expect(view.y).toBeGreaterThanOrEqual(-20);
      expect(view.y).toBeLessThanOrEqual(content.height + 20);
      expect(view.x + box.width / view.scale).toBeGreaterThan(0);
      expect(view.x).toBeLessThan(content.width);
      expect(view.scale).toBeGreaterThan(0.05);
      expect(view.scale).toBeLessThanOrEqual(3);
    }),
    runs(200),
  );
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packTexts } from './source.ts';

test('gives each text back, in any order', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 400 }), { maxLength: 300 }), (texts) => {
      const packed = packTexts(texts);
      expect(packed.map(({ text }) => text)).toEqual(texts);
      expect(packed.toReversed().map(({ key }) => key)).toEqual(texts.toReversed());
    }),
  );
});

test('a text longer than a block is one', () => {
  const texts = ['a', 'é'.repeat(100_000), 'b'.repeat(100_000), ''];
  expect(packTexts(texts).map(({ text }) => text)).toEqual(texts);
});

import { syncBuiltinESMExports } from 'node:module';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
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

test('a text that is longer than a block has no neighbours in it', () => {
  const inflate = vi.spyOn(zlib, 'inflateRawSync');
  syncBuiltinESMExports();
  const texts = ['a', 'é'.repeat(100_000), 'b'.repeat(100_000), '', 'c'];
  const packed = packTexts(texts);
  expect(packed[0]?.text).toBe('a');
  expect(inflate.mock.results.map(({ value }) => (value as Buffer).length)).toEqual([1]);
  expect(packed.map(({ text }) => text)).toEqual(texts);
  inflate.mockRestore();
  syncBuiltinESMExports();
});

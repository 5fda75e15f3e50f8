import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fileDigest } from './seal.ts';
import { TextsDigest } from './texts-digest.ts';

test('it is the digest of the texts of some lists, for any earlier calls', () => {
  const list = fc.array(fc.constantFrom('a', 'b'), { maxLength: 40 });
  fc.assert(
    fc.property(fc.array(fc.array(list, { maxLength: 3 }), { maxLength: 6 }), (calls) => {
      const digest = new TextsDigest();
      for (const lists of calls) expect(digest.of(...lists)).toBe(fileDigest(lists.flat().join('')));
      // The same lists, but one.
      const last = calls.at(-1) ?? [];
      for (const at of last.keys()) {
        const shorter = last.with(at, last[at]!.slice(0, -1));
        expect(digest.of(...shorter)).toBe(fileDigest(shorter.flat().join('')));
      }
    }),
    runs(300),
  );
});

test('it is the digest of all texts, for any earlier calls', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 5 });
  const lists = fc.array(fc.array(text, { maxLength: 100 }), { minLength: 1, maxLength: 8 });
  const edits = fc.array(fc.record({ at: fc.nat(200), text: fc.option(text), more: fc.array(text, { maxLength: 2 }) }));
  fc.assert(
    fc.property(lists, edits, (whole, changes) => {
      const digest = new TextsDigest();
      let last: readonly string[] = [];
      for (const texts of whole) {
        last = texts;
        expect(digest.of(texts)).toBe(fileDigest(texts.join('')));
      }
      for (const { at, text: changed, more } of changes) {
        const place = at % (last.length + 1);
        // Texts are changed, added and removed.
        last = last.toSpliced(place, 1, ...(changed === null ? [] : [changed]), ...more);
        expect(digest.of(last)).toBe(fileDigest(last.join('')));
      }
    }),
  );
});

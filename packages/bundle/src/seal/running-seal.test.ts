import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RunningSeal } from './running-seal.ts';
import { completeText, fileDigest } from './seal.ts';

test('it is the seal of the files after each change', () => {
  // Order by bytes differs from that of folders; the last two paths are outside of the tree.
  const path = fc.constantFrom('a/b', 'a-b', 'a', 'nodes/n/node.yaml', 'cluster.yaml', '.sluice-x', 'SHA256SUMS');
  const change = fc.array(fc.tuple(path, fc.option(fc.string({ maxLength: 3 }), { nil: undefined })), { maxLength: 4 });
  fc.assert(
    fc.property(fc.dictionary(path, fc.string({ maxLength: 3 })), fc.array(change), (first, changes) => {
      const files = new Map(Object.entries(first));
      const seal = new RunningSeal(files);
      const whole = (): string => completeText(new Map([...files].map(([name, text]) => [name, fileDigest(text)])));
      expect(seal.text).toBe(whole());
      for (const one of changes) {
        for (const [name, text] of one) {
          if (text === undefined) files.delete(name);
          else files.set(name, text);
        }
        seal.change(one);
        expect(seal.text).toBe(whole());
      }
    }),
    runs(300),
  );
});

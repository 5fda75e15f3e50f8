import { expect, test } from 'vitest';
import { sharedText } from './findings.ts';

test.each([
  [
    ['Node port 30022 of shop/web will open on 6 nodes', 'Node port 30023 of shop/api will open on 6 nodes'],
    { sentence: 'Node port … will open on 6 nodes', own: ['30022 of shop/web', '30023 of shop/api'] },
  ],
  [['a b c d', 'a b c d'], { sentence: 'a b c d', own: ['', ''] }],
  [['one two three x', 'other words entirely x'], undefined],
  [['a sentence that is alone'], undefined],
  [['the end of a', 'the end of a and more of a'], { sentence: 'the end of a …', own: ['', 'and more of a'] }],
])('%j', (sentences, expected) => {
  expect(sharedText(sentences)).toEqual(expected);
});

import { expect, test } from 'vitest';
import type { Extent } from '../inbox/files.ts';
import { limits } from '../limits.ts';
import { Looks } from './looks.ts';

test.each([
  [true, ['whole', 'changed', 'changed', 'whole']],
  [false, ['whole', 'changed', 'whole', 'changed']],
])('a scan reads everything unless a look behind an event did so a short time before: %s', async (reads, expected) => {
  let nowMs = 0;
  const extents: Extent[] = [];
  const inbox = {
    wasWhole: false,
    look: async (extent: Extent = 'whole') => {
      extents.push(extent);
      // The directory is empty at first; then a bundle arrives, whose files are all read.
      inbox.wasWhole = extents.length === 1 || (reads && extents.length === 2);
      nowMs += extents.length === 1 ? 1 : 100;
      return { kind: 'absent' } as const;
    },
  };
  const looks = new Looks(inbox, () => nowMs);
  const scanAfter = async (ms: number): Promise<void> => {
    nowMs += ms;
    looks.scan();
    await looks.look();
  };
  await looks.look();
  await looks.look();
  await scanAfter(30_000);
  await scanAfter(reads ? 100 * limits.wholeLookFactor : 0);
  expect(extents).toEqual(expected);
});

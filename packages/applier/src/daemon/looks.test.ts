import { expect, test } from 'vitest';
import type { Extent } from '../inbox/files.ts';
import { limits, paces } from '../limits.ts';
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
  const looks = new Looks(
    inbox,
    () => nowMs,
    () => new AbortController().signal,
  );
  const scanAfter = async (ms: number): Promise<void> => {
    nowMs += ms;
    looks.scan();
    await looks.look();
  };
  await looks.look();
  await looks.look();
  await scanAfter(30_000);
  await scanAfter(reads ? 100 * paces.wholeLook.factor : 0);
  expect(extents).toEqual(expected);
});

test('a scan makes way for changes, but not for longer than the limit', async () => {
  let nowMs = 0;
  let isUrgent = true;
  const seen: string[] = [];
  const inbox = {
    look: async (extent: Extent = 'whole') => {
      seen.push(extent);
      return { kind: 'absent' } as const;
    },
    lookInSteps: async (interrupt: AbortSignal) => {
      seen.push(interrupt.aborted ? 'left off' : 'in steps');
      return interrupt.aborted ? ('interrupted' as const) : ({ kind: 'absent' } as const);
    },
  };
  const looks = new Looks(
    inbox,
    () => nowMs,
    () => (isUrgent ? AbortSignal.abort() : new AbortController().signal),
  );
  const scanAfter = async (ms: number): Promise<readonly string[]> => {
    nowMs += ms;
    looks.scan();
    await looks.look();
    return seen.splice(0);
  };
  looks.scan();
  expect(await scanAfter(0), 'the first look').toEqual(['whole']);
  expect(await scanAfter(1)).toEqual(['left off', 'changed']);
  expect(await scanAfter(limits.wholeLookLateMsMax - 1)).toEqual(['left off', 'changed']);
  expect(await scanAfter(1), 'long enough').toEqual(['whole']);
  expect(await scanAfter(1)).toEqual(['left off', 'changed']);
  isUrgent = false;
  expect(await scanAfter(1)).toEqual(['in steps']);
  isUrgent = true;
  looks.readWhole();
  expect(await scanAfter(1), 'asked by an operator').toEqual(['whole']);
});

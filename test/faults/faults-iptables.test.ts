// @module-tag quick
import { atTier } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { nodesOf, timeout, triesPoints, waysFor } from './faults.ts';

const kills = atTier({ quick: 32, test: 40, all: 130, soak: Infinity });
const errors = atTier({ quick: 8, test: 12, all: 30, soak: Infinity });

describe.each(nodesOf('iptables'))('sluiced on $backend in layout $layout, mode $mode', { timeout }, (kind) => {
  const tried = triesPoints(kind);
  test.each(waysFor(kills, errors))('%s at any point: the old rules or the new ones', async (...way) => {
    expect(await tried(...way)).toEqual([]);
  });
});

import { frontendLines, type NftState } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { settledPlacement } from './placement.ts';
import { planNftInPlace } from './plan.ts';

const [one, other] = ['10.96.0.10 . tcp . 80', '10.96.0.10 . tcp . 81'];

/** Frontends of one address, each with these pods. */
const stateOf = (lists: Readonly<Record<string, readonly string[]>>): NftState => ({
  settings: ['table 1 address'],
  frontends: new Map(
    Object.entries(lists).map(([key, endpoints]) => [
      key,
      frontendLines({ isClusterIP: true, ranges: [], endpoints, local: [] }),
    ]),
  ),
});

const [first, second, third] = ['10.244.1.1 . 8080', '10.244.1.2 . 8080', '10.244.1.3 . 8080'] as const;

test('a pod that left one of two frontends leaves nothing to remove later', () => {
  const held = settledPlacement(stateOf({ [one]: [first, second], [other]: [first] }), new Map(), new Set());
  const desired = stateOf({ [one]: [third, second], [other]: [first] });
  const steps = planNftInPlace({ mend: [], held, exists: true }, desired);
  expect(steps.late).toEqual([]);
  expect(steps.first).toHaveLength(1);
  const after = steps.first[0]?.leadsTo;
  expect(after?.left.size).toBe(0);
  expect(after?.uses.get('loop4 10.244.1.1 . 10.244.1.1')).toBe(1);
});

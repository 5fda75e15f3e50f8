import { expect, test } from 'vitest';
import { emptyRecord, type HistoryEntry, type NodeRecord } from '../../state/record.ts';
import { newestRelease } from './newest.ts';

const at = '2026-01-01T00:00:00.000Z';
const generation = (number: number): NonNullable<NodeRecord['current']> => ({
  number,
  revision: 0,
  version: `v${number}`,
  manifest: '',
});
const entry = (what: HistoryEntry['what'], number: number, more: Partial<HistoryEntry> = {}): HistoryEntry => ({
  at,
  what,
  generation: number,
  version: `v${number}`,
  ...more,
});
const open = {
  phase: 'open',
  lane: 'release',
  flip: 'switch',
  version: 'v2',
  from: generation(1),
  to: generation(2),
  sysctls: {},
  flows: '',
  at,
  recoveries: 0,
} as const satisfies NodeRecord['open'];

/** Generation 1 is active. */
function on(history: readonly HistoryEntry[], more: Partial<NodeRecord> = {}): NodeRecord {
  const all = [entry('first-run', 0), entry('confirmed', 1), ...history];
  return { ...emptyRecord('node-a'), current: generation(1), history: all, ...more };
}

test.each([
  ['a confirmed one', on([]), 'active', 'v1', null],
  ['endpoint updates are none', on([entry('updated', 1)]), 'active', 'v1', null],
  ['one on probation', on([], { open }), 'on probation', 'v2', null],
  ['one that is halted', on([], { open, held: 'busy' }), 'halted', 'v2', 'busy'],
  [
    'one that was rolled back',
    on([entry('rolled-back', 2, { because: 'web fails' })]),
    'rolled back',
    'v2',
    'web fails',
  ],
  [
    'a rolled-back endpoint update is none',
    on([entry('rolled-back', 1, { because: 'busy', lane: 'endpoints' })]),
    'active',
    'v1',
    null,
  ],
  [
    'one that an operator left',
    on([entry('confirmed', 2), entry('chosen', 1)]),
    'rolled back',
    'v2',
    'an operator rolled back to generation 1',
  ],
])('%s', (_title, record, fate, version, because) => {
  expect(newestRelease(record, true, null)).toMatchObject({ fate, version, because });
});

test.each([
  ['one that was refused', { BUNDLE_INVALID: 'no seal' }, 'refused', 'no seal [BUNDLE_INVALID]'],
  ['one that removes much', { REMOVAL_HELD: 'half', NODE_X: 'y' }, 'waits', 'half [REMOVAL_HELD]'],
  ['alarms of the node say nothing of it', { DRIFT_LOOP: 'x', FIGHT: 'x', KERNEL: 'z' }, 'active', null],
])('by the alarms: %s', (_title, alarms, fate, because) => {
  expect(newestRelease(on([]), false, { alarms })).toMatchObject({ fate, because });
});

test('one that is not tried again after its rollback is not called refused', () => {
  const record = on([entry('rolled-back', 2, { because: 'web fails' })]);
  const alarms = (version: string): Record<string, string> => ({ BUNDLE_QUARANTINED: `Cannot apply ${version} again` });
  expect(newestRelease(record, false, { alarms: alarms('v2') })).toMatchObject({ fate: 'rolled back', generation: 2 });
  expect(newestRelease(record, false, { alarms: alarms('v3') })).toMatchObject({ fate: 'refused' });
});

test('one that waits for its wave', () => {
  const told = { waits: { wave: 2, name: 'rest' } };
  expect(newestRelease(on([]), false, told)).toMatchObject({ fate: 'waits', because: 'for wave 2 (rest) to open' });
});

test('a node without a release has none', () => {
  expect(newestRelease(emptyRecord('node-a'), false, null)).toBeNull();
});

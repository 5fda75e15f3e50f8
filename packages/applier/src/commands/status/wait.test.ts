import { expect, test } from 'vitest';
import type { ControlStatus } from '../../daemon/control/protocol.ts';
import { emptyRecord, type HistoryEntry } from '../../state/record.ts';
import { Status } from '../../observe/status/status.ts';
import { judge } from './status.ts';

const startMs = Date.parse('2026-01-01T00:00:00.000Z');
const current = { number: 1, revision: 0, version: 'v1', manifest: '' };
const rolledBack: HistoryEntry = {
  at: '2026-01-01T00:00:00.000Z',
  what: 'rolled-back',
  generation: 2,
  version: 'v2',
  because: 'web fails',
};

/** A daemon that looked at its directory a second after the wait began. */
function seen(
  more: Partial<ControlStatus['record']> = {},
  alarms: Readonly<Record<string, string>> = {},
): ControlStatus {
  const report = new Status(
    'node-a',
    () => 0,
    1,
    () => startMs,
  ).report();
  return {
    report: { ...report, healthy: true, looked: '2026-01-01T00:00:01.000Z', alarms },
    probation: null,
    record: { ...emptyRecord('node-a'), current, ...more },
    repairs: [],
  };
}

const confirmed = seen();
const exits = { done: 0, different: 1, refused: 3, rolledBack: 4, halted: 5 };

test.each([
  ['the newest release is active', 'confirmed', confirmed, exits.done],
  ['it was rolled back', 'confirmed', seen({ history: [rolledBack] }), exits.rolledBack],
  ['it was rolled back, and nothing goes on', 'settled', seen({ history: [rolledBack] }), exits.done],
  ['it was refused', 'confirmed', seen({}, { BUNDLE_INVALID: 'no seal' }), exits.refused],
  [
    'it lacks Services',
    'confirmed',
    seen({ current: { ...current, partial: { of: 'v2', services: ['a/b'], because: 'x' } } }),
    exits.different,
  ],
  ['the node is halted', 'confirmed', seen({ held: 'busy' }), exits.halted],
  ['the daemon is healthy', 'healthy', confirmed, exits.done],
] as const)('ends the wait: %s', (_title, goal, status, exitCode) => {
  expect(judge(goal, status, startMs)).toMatchObject({ exitCode, isReached: exitCode === 0 });
});

const probation = { version: 'v2', generation: 2, token: 'a', decision: null, progress: null };
test.each([
  ['no daemon answers', 'healthy', undefined, 'no sluiced answers'],
  ['a command has the node', 'settled', { ...confirmed, report: null }, '`sluiced apply` is in progress'],
  ['a release is on probation', 'settled', { ...confirmed, probation }, 'version v2 is on probation'],
  [
    'the last look began before',
    'settled',
    { ...confirmed, report: { ...confirmed.report!, looked: '2025-12-31T23:59:59.000Z' } },
    'the bundle directory is being looked at',
  ],
  ['a bundle is being copied', 'settled', seen({}, { BUNDLE_INCOMPLETE: 'x' }), 'the bundle is not complete'],
  ['what failed is not to blame', 'confirmed', seen({ history: [{ ...rolledBack, blameless: true }] }), 'web fails'],
  ['a removal is held', 'confirmed', seen({}, { REMOVAL_HELD: 'half' }), 'half [REMOVAL_HELD]'],
] as const)('waits while %s', (_title, goal, status, why) => {
  expect(judge(goal, status, startMs)).toBe(why);
});

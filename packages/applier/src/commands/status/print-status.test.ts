import { expect, test } from 'vitest';
import { statusAfter } from '../../fetch/status-file.ts';
import { printStatus } from './print-status.ts';
import type { StatusSummary } from './summary.ts';

const ended = { source: 'registry.example.com/shop:1', bytes: 0, now: '2026-12-01T12:00:00.000Z', request: undefined };
const source = statusAfter(undefined, { ...ended, attempt: { kind: 'same' } });

/** The fields that need a value. */
const summary = {
  node: 'node-a',
  generation: null,
  kernel: { holds: true },
  damagedFiles: [],
  waitsUntil: null,
  probation: null,
  open: null,
  held: null,
  quarantined: {},
  quarantinedServices: [],
  next: [],
  at: ended.now,
} as unknown as StatusSummary;

test.each([
  ['nothing while they are sent', null, []],
  [
    'why they are not, in one line',
    { code: 'REGISTRY_DENIED', message: 'Cannot send receipts:\nno password', hint: 'x' },
    ['receipts    not sent: Cannot send receipts: no password'],
  ],
] as const)('the text says of receipts %s', (_title, receipts, lines) => {
  const text = printStatus({ ...summary, daemon: { source: { ...source, receipts } } });
  expect(text).toContain(
    '\nsource      registry.example.com/shop:1: no release yet, asked at 2026-12-01T12:00:00.000Z\n',
  );
  expect(text.split('\n').filter((line) => line.startsWith('receipts'))).toEqual(lines);
});

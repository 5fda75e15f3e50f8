import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { sourceSchema } from '../../config-source.ts';
import { statusAfter, tellReceipts, writeSourceStatus } from '../../fetch/status-file.ts';
import { Status } from '../../observe/status/status.ts';
import { sourceRound } from './rounds.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-source-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const begin = Date.parse('2026-12-01T12:00:00Z');
let nowMs = begin;
let status: Status;
let round: () => void;
const alarms = (): Readonly<Record<string, string>> => {
  round();
  const { SOURCE_LATE, SOURCE_REFUSED } = status.report().alarms;
  return { ...(SOURCE_LATE ? { SOURCE_LATE } : {}), ...(SOURCE_REFUSED ? { SOURCE_REFUSED } : {}) };
};
const problem = { code: 'RELEASE_SERIAL', level: 'error', message: 'Cannot accept it: older', hint: 'Wait' } as const;
const down = { code: 'SOURCE_UNREACHABLE', level: 'error', message: 'Cannot reach it', hint: 'Wait' } as const;
const ended = (at: number) => ({
  source: 'registry.example.com/shop:1',
  bytes: 5,
  now: new Date(at).toISOString(),
  request: undefined,
});

beforeEach(() => {
  nowMs = begin;
  status = new Status(
    'node-a',
    () => 0,
    60_000,
    () => nowMs,
  );
  const source = v.parse(sourceSchema, { dir: { path: '/media' }, directory: scratch, lateSeconds: 600 });
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined, fatal: () => undefined };
  rmSync(join(scratch, 'status.json'), { force: true });
  round = sourceRound({ config: { source }, log, status }, () => nowMs);
});

test('a process that never reports is late after lateSeconds', () => {
  nowMs = begin + 600_000;
  expect(alarms()).toEqual({});
  nowMs += 1;
  expect(alarms()['SOURCE_LATE']).toContain('is sluiced-fetch.service active?');
});

test('a source that cannot be read is late with its reason, until it can be read again', async () => {
  const good = statusAfter(undefined, { ...ended(begin), attempt: { kind: 'same' } });
  nowMs = begin + 700_000;
  writeSourceStatus(scratch, statusAfter(good, { ...ended(nowMs - 1000), attempt: { kind: 'failed', problem: down } }));
  expect(alarms()).toEqual({
    SOURCE_LATE: 'registry.example.com/shop:1 has not been read since 2026-12-01T12:00:00.000Z: Cannot reach it',
  });
  const metrics = await status.registry.metrics();
  expect(metrics).toMatch(/^sluice_source_failures 1$/m);
  expect(metrics).toMatch(/^sluice_source_bytes 10$/m);
  expect(metrics).toMatch(new RegExp(`^sluice_source_success_timestamp_seconds ${begin / 1000}$`, 'm'));
  writeSourceStatus(scratch, statusAfter(good, { ...ended(nowMs), attempt: { kind: 'same' } }));
  expect(alarms()).toEqual({});
});

test('a release that the node must not take is an alarm at once', () => {
  writeSourceStatus(
    scratch,
    statusAfter(undefined, { ...ended(begin), attempt: { kind: 'refused', problems: [problem] } }),
  );
  expect(alarms()).toEqual({
    SOURCE_REFUSED: 'registry.example.com/shop:1: RELEASE_SERIAL: Cannot accept it: older',
  });
});

test('receipts that cannot be sent are in the status and a metric, until they are sent', async () => {
  const good = statusAfter(undefined, { ...ended(begin), attempt: { kind: 'same' } });
  tellReceipts(scratch, down);
  expect(alarms()).toEqual({});
  expect(status.report().source).toBeNull();
  writeSourceStatus(scratch, good);
  for (const [why, unsent] of [
    [down, 1],
    [undefined, 0],
  ] as const) {
    tellReceipts(scratch, why);
    expect(alarms()).toEqual({});
    const { level: _level, ...told } = down;
    expect(status.report().source).toEqual({ ...good, receipts: why ? told : null });
    expect(await status.registry.metrics()).toMatch(new RegExp(`^sluice_receipts_unsent ${unsent}$`, 'm'));
  }
});

test('a status file with anything else in it counts as none', () => {
  writeFileSync(join(scratch, 'status.json'), '{"schema":1,"source":"\\u001b[2J"}');
  expect(alarms()).toEqual({});
  expect(status.report().source).toBeNull();
});

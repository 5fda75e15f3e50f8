import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { Drain } from './drain.ts';

let state: string;
let nowMs: number;
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'sluiced-drain-'));
  nowMs = Date.parse('2026-01-01T00:00:00.000Z');
});
afterEach(() => rmSync(state, { recursive: true }));
const start = (boot = 'a'): Drain => new Drain(state, boot, () => nowMs);

test('lasts over a restart of the process, and not over a boot', () => {
  expect(start().now).toBeUndefined();
  start().begin(null, 'operator');
  expect(start().now).toMatchObject({ since: '2026-01-01T00:00:00.000Z', until: null, because: 'operator' });
  expect(start('b').now).toBeUndefined();
});

test('ends by itself, or when the operator ends it', () => {
  const drain = start();
  drain.begin(600, 'operator');
  nowMs += 300_000;
  drain.begin(600, 'operator');
  expect(drain.now).toMatchObject({ since: '2026-01-01T00:00:00.000Z', until: '2026-01-01T00:15:00.000Z' });
  nowMs += 600_000;
  expect(drain.now).toBeUndefined();
  drain.begin(null, 'operator');
  drain.end();
  expect([drain.now, start().now]).toEqual([undefined, undefined]);
});

test('knows the clients that were not told three times, of those that asked within a minute', () => {
  const drain = start();
  drain.answers('192.0.2.1');
  drain.begin(null, 'operator');
  expect(drain.now?.untold).toBe(1);
  for (const untold of [1, 1, 0]) {
    drain.answers('192.0.2.1');
    expect(drain.now?.untold).toBe(untold);
  }
  drain.answers('192.0.2.2');
  expect(drain.now?.untold).toBe(1);
  nowMs += limits.drain.askerMs + 1;
  expect(drain.now?.untold).toBe(0);
  drain.end();
  drain.answers('192.0.2.1');
  drain.begin(null, 'operator');
  expect(drain.now?.untold, 'what was told of an earlier drain does not count').toBe(1);
});

test('remembers a bounded number of clients, the newest', () => {
  const drain = start();
  for (let n = 0; n < 3 * limits.drain.askersMax; n++) drain.answers(`host-${n}`);
  drain.begin(null, 'operator');
  expect(drain.now?.untold).toBe(limits.drain.askersMax);
});

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { limits } from '../../limits.ts';
import { Repairs } from '../../observe/status/repairs.ts';
import { history } from './history.ts';

test('lists drift repairs in the history with time, changes and program, and keeps the newest', async () => {
  const state = mkdtempSync(join(tmpdir(), 'sluiced-state-'));
  onTestFinished(() => rmSync(state, { recursive: true }));
  const repairs = new Repairs(state);
  const one = { steps: 2, by: 'iptables (process 7)', what: ['iptables -t nat -F', 'iptables -t nat -X'] };
  for (let day = 0; day <= limits.repairsKept; day++)
    repairs.add({ ...one, at: new Date(Date.UTC(2026, 0, 1 + day)).toISOString() });
  repairs.add({ steps: 1, by: null, what: [], at: '2027-01-01T00:00:00.000Z' });
  const told = async (output?: string): Promise<string> => {
    let text = '';
    const terminal = { out: (part: string) => void (text += part), err: () => undefined };
    await history({ state, node: 'node-a', ...(output === undefined ? {} : { output }) }, terminal);
    return text;
  };
  const lines = (await told()).trimEnd().split('\n');
  expect(lines).toHaveLength(limits.repairsKept);
  expect(lines[0]).toBe(
    '2026-01-03T00:00:00.000Z  repaired     rules were changed by iptables (process 7): iptables -t nat -F; iptables -t nat -X',
  );
  expect(lines.at(-1)).toBe('2027-01-01T00:00:00.000Z  repaired     rules were changed by another program');
  const { items } = JSON.parse(await told('json')) as { items: readonly unknown[] };
  expect(items[0]).toEqual({
    at: '2026-01-03T00:00:00.000Z',
    what: 'repaired',
    steps: 2,
    by: one.by,
    changes: one.what,
  });
});

test('shows the history when the daemon does not answer', {
  timeout: 30_000,
}, async () => {
  const state = mkdtempSync(join(tmpdir(), 'sluiced-state-'));
  const silent = createServer();
  silent.listen(join(state, 'control.sock'));
  onTestFinished(() => {
    silent.close();
    rmSync(state, { recursive: true });
  });
  new Repairs(state).add({ steps: 1, by: null, what: [], at: '2026-01-01T00:00:00.000Z' });
  let text = '';
  await history({ state, node: 'node-a' }, { out: (part) => void (text += part), err: () => undefined });
  expect(text).toContain('2026-01-01T00:00:00.000Z  repaired');
});

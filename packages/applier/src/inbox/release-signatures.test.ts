import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { removeLeftScratch } from './release-signatures.ts';

let state: string;
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'sluiced-left-'));
});
afterEach(() => rmSync(state, { recursive: true, force: true }));

const nowMs = 1_800_000_000_000;

/** A directory with a file, last changed so many minutes ago. */
function make(name: string, minutes: number): void {
  mkdirSync(join(state, name));
  writeFileSync(join(state, name, 'signature'), '');
  const seconds = nowMs / 1000 - minutes * 60;
  utimesSync(join(state, name), seconds, seconds);
}

test('removes leftovers of killed checks after an hour, and nothing else', () => {
  make('sluiced-verify-aaaaaa', 61);
  make('sluiced-verify-bbbbbb', 59);
  make('store', 1_000);
  removeLeftScratch(state, nowMs);
  expect(readdirSync(state).toSorted()).toEqual(['sluiced-verify-bbbbbb', 'store']);
});

test('ignores a missing state directory', () => {
  expect(() => removeLeftScratch(join(state, 'none'), nowMs)).not.toThrow();
});

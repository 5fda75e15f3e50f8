import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Problem } from '@sluice/bundle';
import { afterAll, expect, test } from 'vitest';
import { writeRelease } from './release.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-write-release-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const files = new Map([['cluster.yaml', 'x\n']]);
const texts = { release: 'serial: 2\n', sums: 'sums\n', waves: undefined };

test('a release waits for another one, and then may be out of date', async () => {
  const [dir, done] = [join(scratch, 'a'), join(scratch, 'done')];
  writeRelease(dir, files, { ...texts, release: 'serial: 1\n' });
  const other = spawn('flock', ['-x', dir, 'sh', '-c', 'echo has it; sleep 1; : > "$0"', done]);
  await new Promise((has) => other.stdout.once('data', has));
  const late: Problem = { code: 'RELEASE_SERIAL', level: 'error', message: 'late', hint: '' };
  const before = readdirSync(dir);
  expect(writeRelease(dir, files, texts, () => (existsSync(done) ? late : undefined))).toBe(late);
  expect(readdirSync(dir)).toEqual(before);
});

test('what is there already is no question of time', () => {
  const dir = join(scratch, 'b');
  expect(writeRelease(dir, files, texts)).toBe('written');
  expect(writeRelease(dir, files, texts, () => expect.unreachable())).toBe('same');
});

test('the names that a write uses for a while are nobody else’s, and none is left', () => {
  const dir = join(scratch, 'c');
  writeRelease(dir, files, texts);
  writeFileSync(join(dir, '.sluice-opening'), 'mine\n');
  writeRelease(dir, files, { ...texts, release: 'serial: 3\n' });
  expect(readdirSync(dir).toSorted()).toEqual(['.sluice-opening', 'SHA256SUMS', 'cluster.yaml', 'release.yaml']);
});

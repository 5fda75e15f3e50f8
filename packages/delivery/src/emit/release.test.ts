import { execFileSync, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { afterAll, expect, test } from 'vitest';
import { writeRelease } from './release.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-write-release-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const files = new Map([['cluster.yaml', 'x\n']]);
const texts = { release: 'serial: 2\n', sums: 'sums\n', waves: undefined };

test('waits for another writer and then checks for objections', async () => {
  const [dir, done] = [join(scratch, 'a'), join(scratch, 'done')];
  writeRelease(dir, files, { ...texts, release: 'serial: 1\n' });
  const before = readdirSync(dir);
  const other = spawn('flock', ['-x', join(dir, '.sluice-lock'), 'sh', '-c', 'echo has it; sleep 1; : > "$0"', done]);
  await new Promise((has) => other.stdout.once('data', has));
  const late: Problem = { code: 'RELEASE_SERIAL', level: 'error', message: 'late', hint: '' };
  expect(writeRelease(dir, files, texts, () => (existsSync(done) ? late : undefined))).toBe(late);
  expect(readdirSync(dir)).toEqual(before);
});

test('writes in a directory that the pipeline itself has locked', () => {
  const dir = join(scratch, 'own');
  writeRelease(dir, files, { ...texts, release: 'serial: 1\n' });
  const held = openSync(dir, 'r');
  try {
    execFileSync('flock', ['-x', '-n', '3'], { stdio: ['ignore', 'ignore', 'inherit', held] });
    expect(writeRelease(dir, files, texts)).toBe('written');
  } finally {
    closeSync(held);
  }
});

test('takes over the lock of a killed process', () => {
  const dir = join(scratch, 'killed');
  mkdirSync(dir);
  writeFileSync(join(dir, '.sluice-lock'), '', { mode: 0o400 });
  expect(writeRelease(dir, files, texts)).toBe('written');
  expect(readdirSync(dir)).not.toContain('.sluice-lock');
});

test('refuses a link in place of the lock', () => {
  const dir = join(scratch, 'linked');
  mkdirSync(dir);
  symlinkSync('../made', join(dir, '.sluice-lock'));
  expect(() => writeRelease(dir, files, texts)).toThrow('ELOOP');
  expect(readdirSync(scratch)).not.toContain('made');
});

test('keeps the digest of SHA256SUMS in .sluice-begun during a write, also after an interruption', () => {
  const dir = join(scratch, 'begun');
  mkdirSync(join(dir, 'SHA256SUMS'), { recursive: true });
  expect(() => writeRelease(dir, files, texts)).toThrow('EISDIR');
  expect(readFileSync(join(dir, '.sluice-begun'), 'utf8')).toBe(`sha256:${fileDigest('sums\n')}\n`);
  rmSync(join(dir, 'SHA256SUMS'), { recursive: true });
  expect(writeRelease(dir, files, texts)).toBe('written');
  expect(readdirSync(dir)).not.toContain('.sluice-begun');
});

test('removes only .sluice-begun after a write that was killed at its end', () => {
  const dir = join(scratch, 'ended');
  writeRelease(dir, files, texts);
  const before = readdirSync(dir);
  writeFileSync(join(dir, '.sluice-begun'), `sha256:${fileDigest('sums\n')}\n`);
  writeFileSync(join(dir, 'SHA256SUMS.sig'), 'signature\n');
  expect(writeRelease(dir, files, texts)).toBe('same');
  expect(readdirSync(dir).toSorted()).toEqual([...before, 'SHA256SUMS.sig'].toSorted());
});

test('does not check for objections when the release is already there', () => {
  const dir = join(scratch, 'b');
  expect(writeRelease(dir, files, texts)).toBe('written');
  expect(writeRelease(dir, files, texts, () => expect.unreachable())).toBe('same');
});

test('uses temporary names that cannot collide and leaves none behind', () => {
  const dir = join(scratch, 'c');
  writeRelease(dir, files, texts);
  writeFileSync(join(dir, '.sluice-opening'), 'mine\n');
  writeRelease(dir, files, { ...texts, release: 'serial: 3\n' });
  expect(readdirSync(dir).toSorted()).toEqual(['.sluice-opening', 'SHA256SUMS', 'cluster.yaml', 'release.yaml']);
});

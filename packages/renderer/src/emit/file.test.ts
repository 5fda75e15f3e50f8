import { spawn } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { removeFile, writeOutput } from './file.ts';

/** One in some hundred removals races with the other process. */
const rounds = atTier({ quick: 2_000, all: 20_000 });

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'sluice-file-'))));
afterEach(() => rmSync(dir, { recursive: true }));

test('removes a file that another process removes at the same time', async () => {
  const path = join(dir, 'file');
  const loop = 'console.log("go"); for (;;) require("node:fs").rmSync(process.argv[1], { force: true })';
  const other = spawn(process.execPath, ['-e', loop, path]);
  try {
    await new Promise((goes) => other.stdout.once('data', goes));
    for (let n = 0; n < rounds; n++) {
      writeFileSync(path, '');
      removeFile(path);
    }
  } finally {
    other.kill('SIGKILL');
  }
  expect(readdirSync(dir)).toEqual([]);
});

test('replaces the target of a link atomically and keeps the link', () => {
  const [path, link] = [join(dir, 'real'), join(dir, 'link')];
  writeFileSync(path, 'before');
  symlinkSync('real', link);
  const opened = openSync(path, 'r');
  writeOutput(link, Buffer.from('after'));
  expect(readFileSync(opened, 'utf8'), 'what a reader still holds').toBe('before');
  closeSync(opened);
  expect([readlinkSync(link), readFileSync(path, 'utf8')]).toEqual(['real', 'after']);
  expect(readdirSync(dir).toSorted()).toEqual(['link', 'real']);
});

test('writes the missing target of a link', () => {
  symlinkSync('real', join(dir, 'link'));
  writeOutput(join(dir, 'link'), Buffer.from('first'));
  expect([readlinkSync(join(dir, 'link')), readFileSync(join(dir, 'real'), 'utf8')]).toEqual(['real', 'first']);
});

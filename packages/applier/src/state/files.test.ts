import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, onTestFinished, test } from 'vitest';
import { limits } from '../limits.ts';
import { asidePath, finishPublication, publishDirectory, readIfWhole, readWithRetry } from './files.ts';
import { StateError } from './state-error.ts';

/** A read that fails some times, and counts how often it was made and waited for. */
function failing(code: string, times: number) {
  const counts = { reads: 0, pauses: 0 };
  const read = (): string | undefined =>
    readWithRetry(
      '/state/journal',
      () => {
        counts.reads += 1;
        if (counts.reads <= times) throw Object.assign(new Error(`${code}: it failed`), { code });
        return 'rules';
      },
      () => void (counts.pauses += 1),
    );
  return { read, counts };
}

test.each(['EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EUCLEAN'])(
  'what fails with %s in passing is read',
  (code) => {
    const { read, counts } = failing(code, limits.readAttemptsMax - 1);
    expect(read()).toBe('rules');
    expect(counts).toEqual({ reads: limits.readAttemptsMax, pauses: limits.readAttemptsMax - 1 });
  },
);

test.each(['EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])(
  'reports data that the disk cannot read (%s) as damaged',
  (code) => {
    const { read, counts } = failing(code, Infinity);
    expect(read()).toBeUndefined();
    expect(counts.reads).toBe(limits.readAttemptsMax);
  },
);

test.each(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'])('throws when the process is short of resources (%s)', (code) => {
  const { read, counts } = failing(code, Infinity);
  expect(read).toThrow(StateError);
  expect(read).toThrow('/state/journal cannot be read: ' + code);
  expect(counts.reads).toBe(2 * limits.readAttemptsMax);
});

test.each(['EACCES', 'EPERM'])('does not retry without permission (%s)', (code) => {
  const { read, counts } = failing(code, Infinity);
  expect(read).toThrow(StateError);
  expect(counts).toEqual({ reads: 1, pauses: 0 });
});

test('does not retry a missing file', () => {
  const pauses: string[] = [];
  expect(readIfWhole('/nowhere/at/all', () => void pauses.push('one'))).toBeUndefined();
  expect(pauses).toEqual([]);
});

test('rethrows programming errors', () => {
  const broken = (): never => {
    throw new TypeError('it is not a function');
  };
  expect(() => readWithRetry('/state/journal', broken)).toThrow(TypeError);
});

/** A published directory `current`, and what is beside it. */
function published() {
  const directory = mkdtempSync(`${tmpdir()}/sluiced-files-`);
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const path = `${directory}/current`;
  const publish = (text: string): void => publishDirectory(path, { text });
  publish('old');
  const shown = () => [readFileSync(`${path}/text`, 'utf8'), readdirSync(directory)];
  return { path, publish, shown };
}

test('replaces a published directory and leaves nothing beside it', () => {
  const { publish, shown } = published();
  publish('new');
  expect(shown()).toEqual(['new', ['current']]);
});

test('gives the old directory its name back when a publication was cut between its renames', () => {
  const { path, publish, shown } = published();
  renameSync(path, asidePath(path));
  finishPublication(path);
  expect(shown()).toEqual(['old', ['current']]);
  renameSync(path, asidePath(path));
  publish('new');
  expect(shown()).toEqual(['new', ['current']]);
});

test('removes the old directory when a publication was cut after its renames', () => {
  const { path, shown } = published();
  mkdirSync(asidePath(path));
  writeFileSync(`${asidePath(path)}/text`, 'older');
  finishPublication(path);
  expect(shown()).toEqual(['old', ['current']]);
});

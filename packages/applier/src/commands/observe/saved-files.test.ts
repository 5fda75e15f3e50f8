import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CommandError } from '../../command-error.ts';
import { readSavedFiles } from './observe.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'saved-'));
});
afterEach(() => rmSync(folder, { recursive: true }));
const save = (name: string, content: string | Buffer): void => writeFileSync(join(folder, name), content);
const messageOf = (): string => {
  try {
    return `read: ${[...readSavedFiles(folder).keys()].join()}`;
  } catch (error) {
    return error instanceof CommandError ? (error.problems[0]?.message ?? '') : String(error);
  }
};

test('files with documented names are read, compressed ones and those of PowerShell, too', () => {
  save('iptables-save.txt.gz', gzipSync('*nat\nCOMMIT\n'));
  save('ipset.txt', Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('create A hash:ip\n', 'utf16le')]));
  save('notes.txt', 'something else');
  expect(readSavedFiles(folder)).toEqual(
    new Map([
      ['ipset.txt', 'create A hash:ip\n'],
      ['iptables-save.txt', '*nat\nCOMMIT\n'],
    ]),
  );
});

test('of a file and its compressed form the file counts', () => {
  save('nft.txt', 'a\n');
  save('nft.txt.gz', gzipSync('b\n'));
  expect(readSavedFiles(folder)).toEqual(new Map([['nft.txt', 'a\n']]));
});

test.each<[string, () => void, string]>([
  ['without any', () => save('notes.txt', ''), 'it has no saved output of a tool'],
  ['where a folder has the name of one', () => mkdirSync(join(folder, 'nft.txt')), 'it has no saved output of a tool'],
  [
    'with a compressed one that is cut',
    () => save('nft.txt.gz', gzipSync('a'.repeat(999)).subarray(0, 15)),
    'nft.txt.gz: unexpected end of file',
  ],
  ['with one that is not compressed', () => save('nft.txt.gz', 'a'), 'nft.txt.gz: '],
  ['that does not exist', () => rmSync(folder, { recursive: true }), 'no such file or directory'],
])('a directory %s is refused', (_title, prepare, why) => {
  prepare();
  expect(messageOf()).toContain(why);
  mkdirSync(folder, { recursive: true });
});

test('a file beyond the limit is refused, also one that is small while it is compressed', () => {
  save('nft.txt.gz', gzipSync('a'.repeat(2_000)));
  expect(() => readSavedFiles(folder, 1_000)).toThrow(CommandError);
  expect(readSavedFiles(folder, 2_000).size).toBe(1);
  save('nft.txt', 'a'.repeat(1_001));
  expect(() => readSavedFiles(folder, 1_000)).toThrow(CommandError);
});

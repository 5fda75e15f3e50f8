import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { expect, test } from 'vitest';
import { confirm, here, nothing, one, open, opening, two, inOwnDirectory } from './journal.fixture.ts';
import { slotBytes } from './slots.ts';
import { StateError } from './state-error.ts';

inOwnDirectory();

test.each([
  ['overwritten', 'x'.repeat(2 * slotBytes)],
  ['cut short', ''],
])('refuses a journal that was %s, and leaves it unchanged', async (_title, bytes) => {
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${here()}/journal`, bytes);
  expect(open).toThrow('both slots');
  expect(readFileSync(`${here()}/journal`, 'utf8')).toBe(bytes);
});

test('reads the previous record after a torn write', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await journal.begin(opening('bbbb', two));
  const path = `${here()}/journal`;
  const whole = readFileSync(path);
  const newest = whole.subarray(0, slotBytes).includes('"version":"bbbb"') ? 0 : slotBytes;
  whole.fill(0, newest + 300, newest + slotBytes);
  writeFileSync(path, whole);
  const again = open();
  expect([again.active?.version, again.open]).toEqual(['aaaa', undefined]);
});

test('starts again where the first record is torn', async () => {
  await open().adopt(nothing);
  const path = `${here()}/journal`;
  const whole = readFileSync(path);
  const end = whole.indexOf(0, slotBytes);
  expect(end - slotBytes).toBeGreaterThan(512);
  for (let at = slotBytes; at < end; at += 512) {
    writeFileSync(path, Buffer.from(whole).fill(0, at, at + 512));
    const journal = open();
    expect([journal.active, journal.halted]).toEqual([undefined, undefined]);
    await confirm(journal, 'aaaa', one);
    expect(open().active?.version).toBe('aaaa');
    rmSync(`${here()}/current`, { recursive: true });
  }
});

test('counts a journal without a record as lost where the node has had rules', async () => {
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${here()}/journal`, Buffer.alloc(2 * slotBytes));
  expect(open).toThrow('has no record, but the node has had rules');
});

/** The files of the store, and their copies. */
const objects = (): readonly string[] =>
  ['store', 'copies'].flatMap((folder) =>
    readdirSync(`${here()}/${folder}`).map((name) => `${here()}/${folder}/${name}`),
  );

test('replaces a generation that is damaged on disk', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await confirm(journal, 'bbbb', two);
  for (const path of objects()) {
    const text = readFileSync(path, 'utf8');
    if (text.includes('-j ACCEPT')) writeFileSync(path, text.replace('ACCEPT', 'DROP'));
  }
  const again = open();
  expect([again.active, again.damaged?.number]).toEqual([undefined, 2]);
  expect(again.halted).toContain('generation 2');
  const older = await again.generation(1);
  expect(older?.version).toBe('aaaa');
  if (older) await again.fallBack(older, 'damaged');
  expect([open().active?.number, open().halted]).toEqual([1, undefined]);
});

/** Puts something else in the place of each object that holds some words. @returns what puts them back */
function replace(words: string, target: string): () => void {
  const [found, aside] = [objects().filter((path) => readFileSync(path, 'utf8').includes(words)), `${here()}/aside`];
  mkdirSync(aside);
  const asideOf = (path: string): string => `${aside}/${basename(dirname(path))}-${basename(path)}`;
  for (const path of found) {
    renameSync(path, asideOf(path));
    symlinkSync(target, path);
  }
  return () => {
    for (const path of found) renameSync(asideOf(path), path);
  };
}
/** No process may read it, not even one of root. */
const forbidden = '/proc/sys/vm/drop_caches';
/** Its first page is not mapped: every read of it fails with EIO, as that of a bad sector. */
const badSector = '/proc/self/mem';

test('counts a generation that the disk cannot read as damaged', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await confirm(journal, 'bbbb', two);
  replace('-j ACCEPT', badSector);
  const again = open();
  expect([again.active, again.damaged?.number]).toEqual([undefined, 2]);
  expect((await again.generation(1))?.version).toBe('aaaa');
});

test('does not count a generation as damaged when this process is short of resources', async () => {
  await confirm(open(), 'aaaa', one);
  const before = readFileSync(`${here()}/journal`);
  const giveBack = replace('-j RETURN', forbidden);
  expect(open).toThrow(StateError);
  expect(open).toThrow('cannot be read: EACCES');
  giveBack();
  expect(readFileSync(`${here()}/journal`).equals(before)).toBe(true);
  expect([open().active?.version, open().halted]).toEqual(['aaaa', undefined]);
});

test('does not count a journal as lost or fresh when this process cannot read it', async () => {
  await confirm(open(), 'aaaa', one);
  renameSync(`${here()}/journal`, `${here()}/aside`);
  symlinkSync(forbidden, `${here()}/journal`);
  expect(open).toThrow(StateError);
  renameSync(`${here()}/aside`, `${here()}/journal`);
  expect(open().active?.version).toBe('aaaa');
});

test('keeps the objects of a generation that cannot be read now', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  const giveBack = replace('"schema":2', forbidden);
  await confirm(journal, 'bbbb', two);
  giveBack();
  expect((await open().generation(1))?.state).toEqual(one);
  expect(open().active?.version).toBe('bbbb');
});

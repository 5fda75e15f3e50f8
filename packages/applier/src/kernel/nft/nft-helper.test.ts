import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { NftHelper } from './nft-helper.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-helper-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const helperOf = (nft: string): NftHelper =>
  new NftHelper({ nft, setpriv: undefined, lockFd: undefined }, () => undefined);

/** A program in place of nft: it reads a transaction and a question at a time. @param answer shell text; `$text`, `$question` */
function helper(answer: string): NftHelper {
  const path = join(folder, `nft-${Math.random()}`);
  const complain = 'printf "Error: syntax error, unexpected newline\\n%s\\n   ^\\n" "$question" >&2';
  const body = `while read -r include && read -r question; do text=$(cat /proc/self/fd/3)\n${answer.replaceAll('COMPLAIN', complain)}\ndone`;
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return helperOf(path);
}

test('matches each answer with its transaction', async () => {
  const nft = helper('case $text in bad*) echo "$text" >&2;; esac; COMPLAIN');
  const answers = [];
  for (const text of ['good 1', 'bad 2', 'good 3', 'bad 4']) answers.push(await nft.write(text));
  await nft.end();
  expect(answers).toEqual([
    { kind: 'taken' },
    { kind: 'refused', stderr: 'bad 2\n' },
    { kind: 'taken' },
    { kind: 'refused', stderr: 'bad 4\n' },
  ]);
});

test('what it says of the terminal at its start is no refusal', async () => {
  const about = 'printf "Cannot read termcap database;\\nusing dumb terminal settings.\\n" >&2';
  const nft = helper(`[ -n "$began" ] || ${about}; began=1; case $text in bad*) echo "$text" >&2;; esac; COMPLAIN`);
  expect(await nft.write('good')).toEqual({ kind: 'taken' });
  expect(await nft.write('bad')).toEqual({ kind: 'refused', stderr: 'bad\n' });
  await nft.end();
});

test('passes the whole of a large text', async () => {
  const nft = helper('echo "${#text}" >&2; COMPLAIN');
  expect(await nft.write('x'.repeat(3_000_000))).toEqual({ kind: 'refused', stderr: '3000000\n' });
  expect(await nft.write('y')).toEqual({ kind: 'refused', stderr: '1\n' });
  await nft.end();
});

test('the complaint of an earlier question is no answer', async () => {
  const nft = helper('printf "Error: unexpected\\nsluiced-asks-7\\n   ^\\n" >&2; exit 0');
  expect(await nft.write('one')).toMatchObject({ kind: 'lost' });
});

test.each([
  ['a crash', 'kill -SEGV $$'],
  ['an end', 'exit 3'],
])('%s in the middle of a transaction leaves it unknown', async (_title, answer) => {
  const nft = helper(answer);
  expect(await nft.write('one')).toMatchObject({ kind: 'lost' });
  expect(nft.runs).toBe(false);
  expect(await nft.write('two')).toMatchObject({ kind: 'lost' });
});

test('a helper that hangs is killed', async () => {
  const nft = helper('exec sleep 600');
  expect(await nft.write('one', 200)).toEqual({ kind: 'lost', why: 'timed out', fault: 'hung' });
  expect(nft.runs, 'what it began is done').toBe(false);
  await nft.end();
});

test('a helper that prints without end is killed', async () => {
  const nft = helper('exec yes "no complaint" >&2');
  expect(await nft.write('one')).toMatchObject({ kind: 'lost' });
});

test('a missing program takes nothing', async () => {
  const nft = helperOf(join(folder, 'missing'));
  expect(await nft.write('one')).toMatchObject({ kind: 'lost' });
  expect(nft.pid).toBeUndefined();
});

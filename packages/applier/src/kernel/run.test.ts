import { expect, test } from 'vitest';
import { runChildren } from './run.ts';

const run = runChildren();
const shell = (script: string) => ({ file: '/bin/sh', args: ['-c', script] });

test('what a tool prints is taken in parts as they come, characters of several bytes whole, and nothing is kept', async () => {
  const parts: string[] = [];
  const script = "printf 'a\\303'; sleep 0.1; printf '\\251b\\n'; echo said >&2; exit 3";
  const ran = await run({ ...shell(script), onOutput: (part) => parts.push(part) });
  expect(parts.join('')).toBe('aéb\n');
  expect(parts.length).toBeGreaterThan(1);
  expect(ran).toEqual({ exitCode: 3, stdout: '', stderr: 'said\n', why: 'exit code 3: "said"' });
});

test('all of it has come when the run is over', async () => {
  let length = 0;
  const ran = await run({ ...shell('head -c 3000000 /dev/zero'), onOutput: (part) => void (length += part.length) });
  expect([ran.exitCode, length]).toEqual([0, 3_000_000]);
});

test.each([
  ['one text', 'ab'],
  ['parts that are there', ['a', 'b']],
  [
    'parts that come',
    (function* parts() {
      yield 'a';
      yield 'b';
    })(),
  ],
])('a tool reads %s', async (_title, input) => {
  expect((await run({ ...shell('cat'), input })).stdout).toBe('ab');
});

test('a tool that changes nothing is ended when something is more urgent', async () => {
  const ran = await run({ ...shell('echo begun; exec sleep 60'), signal: AbortSignal.timeout(50) });
  expect(ran.exitCode).toBeUndefined();
});

test('a tool that did not get all of its input did not end well, whatever it says', async () => {
  const broken = (function* parts() {
    yield 'a';
    throw new Error('the text cannot be read');
  })();
  const ran = await run({ ...shell('cat'), input: broken });
  expect(ran).toMatchObject({ exitCode: undefined, why: expect.stringContaining('the text cannot be read') });
});

test('a tool that ends well when it is asked to, because its time is over, did not end well', async () => {
  const ran = await run({ ...shell('trap "exit 0" TERM; while :; do sleep 0.05; done'), timeoutMs: 300 });
  expect(ran).toMatchObject({ exitCode: undefined, why: 'timed out' });
});

test.each([
  ['one text', 'x'.repeat(1_000_000)],
  ['parts', Array.from({ length: 100 }, () => 'x'.repeat(10_000))],
])('a tool that ends well without all of its input, which is %s, ended well', async (_title, input) => {
  expect(await run({ ...shell('exit 0'), input })).toMatchObject({ exitCode: 0, why: '' });
});

test('of each child it is told how it ended, and of one that did not start nothing', async () => {
  const told: (number | undefined)[] = [];
  const telling = runChildren(undefined, () => (exitCode) => void told.push(exitCode));
  for (const script of ['exit 0', 'exit 3', 'kill -9 $$']) await telling(shell(script));
  await telling({ file: '/nowhere', args: [] });
  expect(told).toEqual([0, 3, undefined]);
});

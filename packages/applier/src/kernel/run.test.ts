import { expect, test } from 'vitest';
import { runChildren } from './run.ts';

const run = runChildren();
const shell = (script: string) => ({ file: '/bin/sh', args: ['-c', script] });

test('passes on output in parts, without splitting characters, and keeps none', async () => {
  const parts: string[] = [];
  const script = "printf 'a\\303'; sleep 0.1; printf '\\251b\\n'; echo said >&2; exit 3";
  const ran = await run({ ...shell(script), onOutput: (part) => parts.push(part) });
  expect(parts.join('')).toBe('aéb\n');
  expect(parts.length).toBeGreaterThan(1);
  expect(ran).toEqual({ exitCode: 3, stdout: '', stderr: 'said\n', why: 'exit code 3: "said"' });
});

test('has passed on all output when the run is over', async () => {
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

test('kills a read-only tool when its signal aborts', async () => {
  const ran = await run({ ...shell('echo begun; exec sleep 60'), signal: AbortSignal.timeout(50) });
  expect(ran.exitCode).toBeUndefined();
});

test('fails a tool that did not get all of its input, whatever its exit code', async () => {
  const broken = (function* parts() {
    yield 'a';
    throw new Error('the text cannot be read');
  })();
  const ran = await run({ ...shell('cat'), input: broken });
  expect(ran).toMatchObject({ exitCode: undefined, why: expect.stringContaining('the text cannot be read') });
});

test('fails a tool that exits with 0 at its timeout', async () => {
  const ran = await run({ ...shell('trap "exit 0" TERM; while :; do sleep 0.05; done'), timeoutMs: 300 });
  expect(ran).toMatchObject({ exitCode: undefined, why: 'timed out' });
});

test.each([
  ['one text', 'x'.repeat(1_000_000)],
  ['parts', Array.from({ length: 100 }, () => 'x'.repeat(10_000))],
])('fails a tool that exits with 0 without all of its input, which is %s', async (_title, input) => {
  const ran = await run({ ...shell('head -c 100; exit 0'), input });
  expect(ran).toMatchObject({ exitCode: undefined, why: 'the tool ended before it had read its input' });
});

test.each([100, 1_000_000])('reads one text of %d characters', async (length) => {
  const ran = await run({ ...shell('wc -c'), input: 'x'.repeat(length), isOneText: true });
  expect(ran).toMatchObject({ exitCode: 0, stdout: `${length}\n` });
});

test('a large text is complete before its tool starts', async () => {
  const input = 'x'.repeat(5_000_000);
  const size = { ...shell('stat -L -c %s /proc/self/fd/0'), input };
  expect((await run({ ...size, isOneText: true })).stdout).toBe('5000000\n');
});

test('reports the exit code of each started child', async () => {
  const told: (number | undefined)[] = [];
  const telling = runChildren(undefined, () => (exitCode) => void told.push(exitCode));
  for (const script of ['exit 0', 'exit 3', 'kill -9 $$']) await telling(shell(script));
  await telling({ file: '/nowhere', args: [] });
  expect(told).toEqual([0, 3, undefined]);
});

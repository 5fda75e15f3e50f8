import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { childrenOf } from '../testing/processes.fixture.ts';
import type { Command, Run } from './command.ts';
import { ChildTime } from './processor-time.ts';
import { runChildren } from './run.ts';
import { throughShell, ToolShell } from './tool-shell.ts';

let folder: string;
let shell: ToolShell;
/** The tools that this process started itself. */
let direct: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tool-shell-'));
  shell = new ToolShell({ sh: '/bin/sh', setpriv: undefined, lockFd: undefined });
  direct = [];
});
afterEach(() => {
  shell.end();
  rmSync(folder, { recursive: true });
});

const children = runChildren();
const started: Run = (command) => {
  direct.push(command.file);
  return children(command);
};
const run = (command: Partial<Command> & Pick<Command, 'file'>) =>
  throughShell(started, shell)({ args: [], isSilent: true, isSmall: true, isRepeatable: true, ...command });

function tool(script: string): string {
  const file = join(folder, 'tool');
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return file;
}

test('gives exit codes and errors as a tool started directly', async () => {
  const file = tool('echo printed; echo "$2 of $1" >&2; exit "$2"');
  for (const code of ['0', '3', '0']) {
    const command = { file, args: ['-D', code], isSilent: true, isSmall: true };
    expect(await run(command)).toEqual(await children(command));
  }
  expect(direct).toEqual([]);
});

test.each([
  ['nothing', undefined],
  ['an empty text', ''],
  ['text that a shell would expand', 'add "$HOME" `reboot` \\ * %s\n= 0\n'],
  ['a text that is shorter than the one before', 'x'],
  ['60,000 characters without a newline', 'word '.repeat(12_000)],
])('gives a tool %s, and passes on what it prints', async (_title, input) => {
  const file = tool('cat; echo end of input >&2; exit 2');
  const command = { file, isSilent: false, ...(input === undefined ? {} : { input }) };
  for (const isSilent of [false, true, false])
    expect(await run({ ...command, isSilent })).toMatchObject({
      exitCode: 2,
      stdout: isSilent ? '' : (input ?? ''),
      stderr: 'end of input\n',
    });
  expect(direct).toEqual([]);
});

test('one shell starts one tool after the other, and no tool waits for another one', async () => {
  const file = tool(`sleep 0.1; echo "$1" >> ${folder}/ran; cat ${folder}/ran >&2`);
  const [first, beside] = [run({ file, args: ['a'] }), run({ file: '/bin/true' })];
  expect((await beside).exitCode).toBe(0);
  expect(direct).toEqual(['/bin/true']);
  expect([(await first).stderr, (await run({ file, args: ['b'] })).stderr]).toEqual(['a\n', 'a\nb\n']);
  expect(direct).toHaveLength(1);
  expect(childrenOf(process.pid, 'read -r out in line')).toHaveLength(1);
});

test.each([
  ['is not small', { isSmall: false }],
  ['reads its input in parts', { input: ['x'] }],
  ['prints more than memory should hold', { onOutput: () => undefined }],
  ['has a word with a space', { args: ['a b'] }],
  ['has an empty word', { args: [''] }],
  ['has a word that a shell would expand', { args: ['$HOME'] }],
  ['has a word of two lines', { args: ['a\nreboot'] }],
])('starts a tool directly that %s', async (_title, command) => {
  const file = tool('cat');
  expect((await run({ file, ...command })).exitCode).toBe(0);
  expect(direct).toEqual([file]);
});

test.each([
  ['is killed', 'kill -9 $$'],
  ['ends its shell', 'kill -9 $PPID; sleep 0.2'],
])('repeats a tool directly that %s', async (_title, script) => {
  const file = tool(`[ -e ${folder}/again ] && exit 0; touch ${folder}/again; ${script}`);
  expect((await run({ file })).exitCode).toBe(0);
  expect(direct).toEqual([file]);
  expect((await run({ file })).exitCode).toBe(0);
  expect(direct).toEqual([file]);
});

test('does not repeat a tool that may not run twice', async () => {
  const file = tool(`echo again >> ${folder}/ran; kill -9 $$`);
  expect(await run({ file, isRepeatable: false })).toMatchObject({ exitCode: undefined, lost: 'killed' });
  expect([direct, readFileSync(`${folder}/ran`, 'utf8')]).toEqual([[], 'again\n']);
});

test('says of a missing tool what a direct start says', async () => {
  const file = join(folder, 'missing');
  expect((await run({ file })).why).toMatch(/ENOENT/);
  expect(direct).toEqual([file]);
});

test('a tool that hangs is killed with its shell, and not repeated', async () => {
  const file = tool(`[ -e ${folder}/again ] && exit 0; touch ${folder}/again; echo $$ > ${folder}/pid; sleep 60`);
  expect(await run({ file, timeoutMs: 300 })).toMatchObject({ exitCode: undefined, why: 'timed out' });
  expect(direct).toEqual([]);
  expect((await run({ file })).exitCode).toBe(0);
});

test('a tool that prints without end is killed, and repeated directly', async () => {
  const file = tool(`[ -e ${folder}/again ] && exit 0; touch ${folder}/again; exec yes line >&2`);
  expect((await run({ file })).exitCode).toBe(0);
  expect(direct).toEqual([file]);
});

test('after its end tools are started directly, and those before are done', async () => {
  const file = tool('sleep 0.1; exit 3');
  const running = run({ file });
  await new Promise((resolve) => setTimeout(resolve, 20));
  shell.end();
  expect((await running).exitCode).toBe(3);
  expect(direct).toEqual([]);
  expect((await run({ file })).exitCode).toBe(3);
  expect(direct).toEqual([file]);
  expect(childrenOf(process.pid, 'read -r out in line')).toEqual([]);
});

test('when it ends, no other child is taken to have used the time of its tools', async () => {
  const other = new ChildTime();
  await run({ file: tool('i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done') });
  shell.end();
  await expect.poll(() => childrenOf(process.pid, 'read -r out in line')).toEqual([]);
  expect(other.end()).toBeLessThan(50);
});

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
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
  expect(childrenOf(process.pid, 'read -r out in')).toHaveLength(1);
});

test.each([
  ['is not small', { isSmall: false }],
  ['reads its input in parts', { input: ['x'] }],
  ['reads a large text', { input: 'x'.repeat(100_000) }],
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

test('tells the process of a tool that changes tables before it begins, and its exit code afterwards', async () => {
  const ran = `${folder}/ran`;
  const told: unknown[] = [];
  const tells = new ToolShell({
    sh: '/bin/sh',
    setpriv: undefined,
    lockFd: undefined,
    started: (pid, { args }) => {
      told.push(pid, args[0], existsSync(ran));
      return (exitCode) => void told.push(exitCode);
    },
  });
  const file = tool(`echo $$ > ${ran}; cat; exit "$1"`);
  const changes = { file, input: '12\n', isSmall: true, changesTables: true };
  const once = (code: string) => throughShell(started, tells)({ ...changes, args: [code] });
  expect(await once('0')).toMatchObject({ exitCode: 0, stdout: '12\n' });
  const first = Number(readFileSync(ran, 'utf8'));
  expect(await once('4')).toMatchObject({ exitCode: 4, stdout: '12\n' });
  expect(told).toEqual([first, '0', false, 0, Number(readFileSync(ran, 'utf8')), '4', true, 4]);
  expect((await throughShell(started, tells)({ file, args: ['0'], isSmall: true })).exitCode).toBe(0);
  expect([told.length, direct]).toEqual([8, []]);
  tells.end();
});

test('a tool that changes tables is started directly where its shell ends before it begins, and never runs twice', async () => {
  const file = tool(`echo ran >> ${folder}/ran`);
  const changes = { file, input: '', isRepeatable: false, changesTables: true };
  expect((await run(changes)).exitCode).toBe(0);
  const [id = 0] = childrenOf(process.pid, 'read -r out in');
  process.kill(id, 'SIGSTOP');
  const running = run(changes);
  process.kill(id, 'SIGKILL');
  expect((await running).exitCode).toBe(0);
  expect([direct, readFileSync(`${folder}/ran`, 'utf8')]).toEqual([[file], 'ran\nran\n']);
});

test('a tool that changes tables does not begin where this process was killed', async () => {
  const source = (name: string): string => JSON.stringify(`${import.meta.dirname}/${name}`);
  const file = tool(`echo ran > ${folder}/ran`);
  const script = `
    import { ToolShell } from ${source('tool-shell.ts')};
    const started = () => process.kill(process.pid, 'SIGKILL');
    const shell = new ToolShell({ sh: '/bin/sh', setpriv: undefined, lockFd: undefined, started });
    await shell.run({ file: ${JSON.stringify(file)}, args: [], changesTables: true });`;
  await execa(process.execPath, ['--input-type=module-typescript', '-e', script], { reject: false });
  await sleep(300);
  expect(existsSync(`${folder}/ran`)).toBe(false);
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
  expect(childrenOf(process.pid, 'read -r out in')).toEqual([]);
});

test('when it ends, no other child is taken to have used the time of its tools', async () => {
  const other = new ChildTime();
  await run({ file: tool('i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done') });
  shell.end();
  await expect.poll(() => childrenOf(process.pid, 'read -r out in')).toEqual([]);
  expect(other.end()).toBeLessThan(50);
});

import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { afterEach, expect, test } from 'vitest';
import { childrenOf } from '../testing/processes.fixture.ts';
import type { Command } from './command.ts';
import { runChildren } from './run.ts';
import { Spares } from './spares.ts';

let spares = new Spares();
afterEach(() => {
  spares.end();
  spares = new Spares();
});

/** Says who it is and what it read. */
const echo: Command = { file: '/bin/sh', args: ['-c', 'echo $$; cat'], isFrequent: true };

async function running(run: ReturnType<typeof runChildren>, input: string): Promise<readonly [number, string]> {
  const { stdout } = await run({ ...echo, input });
  const [id = '', ...text] = stdout.split('\n');
  return [Number(id), text.join('\n')];
}

const isThere = (id: number): boolean => existsSync(`/proc/${id}`);

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(20);
}

test('starts a requested tool in advance', async () => {
  const told: (readonly [number, string | undefined])[] = [];
  const run = runChildren(undefined, (id, { input }) => void told.push([id, input as string]), spares);
  const first = await running(run, 'a');
  expect(told).toEqual([[first[0], 'a']]);
  spares.refill();
  spares.refill();
  expect(told.length).toBe(1);
  const second = await running(run, 'b');
  const third = await running(run, 'c');
  expect([first[1], second[1], third[1]]).toEqual(['a', 'b', 'c']);
  expect(new Set([first, second, third].map(([id]) => id)).size).toBe(3);
  expect(told.map(([, input]) => input)).toEqual(['a', 'b', 'c']);
  expect(told[1]?.[0]).toBe(second[0]);
});

test('uses a waiting tool whatever ran in between', async () => {
  const run = runChildren(undefined, undefined, spares);
  const before = Number((await run({ file: '/bin/sh', args: ['-c', 'echo $$'] })).stdout);
  await running(run, 'a');
  spares.refill();
  const after = Number((await run({ file: '/bin/sh', args: ['-c', 'echo $$'] })).stdout);
  const [id] = await running(run, 'b');
  expect(id).toBeGreaterThan(before);
  expect(id).toBeLessThan(after);
});

test('starts the next tool while one works', async () => {
  const run = runChildren(undefined, undefined, spares);
  await running(run, 'a');
  spares.refill();
  await running(run, 'b');
  const after = Number((await run({ file: '/bin/sh', args: ['-c', 'echo $$'] })).stdout);
  expect((await running(run, 'c'))[0]).toBeLessThan(after);
});

test('ends a waiting tool whose program was replaced', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-spares-'));
  try {
    const file = join(folder, 'tool');
    const write = (says: string): void => {
      writeFileSync(`${file}.new`, `#!/bin/sh\necho ${says}; cat`, { mode: 0o755 });
      renameSync(`${file}.new`, file);
    };
    const run = runChildren(undefined, undefined, spares);
    const say = async (): Promise<string> => (await run({ file, args: [], input: '', isFrequent: true })).stdout;
    write('old');
    expect(await say()).toBe('old\n');
    spares.refill();
    write('new');
    expect(await say()).toBe('new\n');
    spares.refill();
    const [waiting = 0] = childrenOf(process.pid, file);
    write('newer');
    spares.refill();
    await until(() => !isThere(waiting));
    expect(await say()).toBe('newer\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('starts the timeout with the input, and kills the tool when it expires', async () => {
  const run = runChildren(undefined, undefined, spares);
  const slow: Command = { file: '/bin/sh', args: ['-c', 'cat; exec sleep 60'], input: 'x', isFrequent: true };
  await run({ ...slow, timeoutMs: 100 });
  spares.refill();
  await sleep(400);
  expect(await run({ ...slow, timeoutMs: 100 })).toMatchObject({ exitCode: undefined, why: 'timed out' });
});

test('does not restart a waiting tool that ended early', async () => {
  const run = runChildren(undefined, undefined, spares);
  const mortal: Command = { file: '/bin/sh', args: ['-c', 'read line; echo "$line"'], isFrequent: true };
  const once = async (): Promise<string> => {
    const { exitCode, stdout } = await run({ ...mortal, input: 'x\n' });
    return `${exitCode} ${stdout.trim()}`;
  };
  await once();
  spares.refill();
  const [spare] = childrenOf(process.pid, 'read line');
  process.kill(spare as number, 'SIGKILL');
  await sleep(200);
  spares.refill();
  expect(childrenOf(process.pid, 'read line')).toEqual([]);
  expect(await once()).toBe('0 x');
});

test.each([
  ['is asked to', 'spares.end()'],
  ['is killed', "process.kill(process.pid, 'SIGKILL')"],
])('ends a waiting tool when this process %s', async (_title, end) => {
  const source = (name: string): string => JSON.stringify(`${import.meta.dirname}/${name}`);
  const script = `
    import { runChildren } from ${source('run.ts')};
    import { Spares } from ${source('spares.ts')};
    const spares = new Spares();
    const command = { file: '/bin/sh', args: ['-c', 'echo $$ >&2; cat'], input: '', isFrequent: true };
    await runChildren(undefined, undefined, spares)(command);
    spares.refill();
    console.log(process.pid);
    process.stdin.once('data', () => { process.stdin.destroy(); ${end}; });`;
  const child = execa(process.execPath, ['--input-type=module-typescript', '-e', script], { reject: false });
  const { value } = await child.iterable()[Symbol.asyncIterator]().next();
  const [waiting = 0] = childrenOf(Number(value), 'cat');
  expect(isThere(waiting)).toBe(true);
  child.stdin.end('\n');
  await child;
  await until(() => !isThere(waiting));
});

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { CommandContext } from './commands/options/context.ts';
import { buildProgram } from './program.ts';

/** What `sluiced complete` prints for the words so far. */
async function completed(...words: readonly string[]): Promise<readonly string[]> {
  let out = '';
  const terminal: CommandContext['terminal'] = { out: (text) => (out += text), err() {} };
  const context = { terminal, finish: async () => {}, environment: {}, runDaemon: async () => 0 };
  await buildProgram(context).parseAsync(['complete', '--', ...words], { from: 'user' });
  return out.split('\n').slice(0, -1);
}

test.each([
  ['a verb, with what it does', ['roll'], ['rollback\troll back to an earlier generation']],
  [
    'an option',
    ['apply', '--dry'],
    ['--dry-run\tshow the changes without making them; exit code 1 when there are any'],
  ],
  ['a choice', ['preflight', '--signatures', ''], ['required', 'none']],
  ['a file, for an archive', ['import', ''], [':files']],
  ['nothing, for a number of seconds', ['extend', ''], []],
] as const)('completes %s', async (_title, words, lines) => {
  expect(await completed(...words)).toEqual(lines);
});

test('completes the nodes of the bundle on the command line', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluiced-nodes-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const node of ['node-b', 'node-a']) mkdirSync(join(dir, 'nodes', node), { recursive: true });
  expect(await completed('apply', dir, '--node', '')).toEqual(['node-a', 'node-b']);
  expect(await completed('apply', join(dir, 'nowhere'), '--node', '')).toEqual([]);
});

import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, expect, test } from 'vitest';

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

const root = join(import.meta.dirname, '..');
const dir = mkdtempSync(join(tmpdir(), 'sluice-launchers-'));
afterAll(() => rmSync(dir, { recursive: true }));

test.each(['sluice', 'sluiced'])(
  'bin/%s runs from any directory, also through symbolic links',
  async (name) => {
    symlinkSync(join(root, 'bin', name), join(dir, name));
    const { stdout } = await execa(join(dir, name), ['--version'], { cwd: '/' });
    expect(stdout).toMatch(/^\d+\.\d+\.\d+-dev$/);
  },
  startsProgramsMs,
);

test.each(['sluice', 'sluiced'])('bin/%s prints the set-up command in a fresh checkout', async (name) => {
  cpSync(join(root, 'bin'), join(dir, 'fresh', 'bin'), { recursive: true });
  const { exitCode, stderr } = await execa(join(dir, 'fresh', 'bin', name), ['--version'], { reject: false });
  expect(exitCode).toBe(2);
  expect(stderr).toContain(`${name}: Cannot start`);
  expect(stderr).toMatch(/Run \S+\/fresh\/dev setup/);
});

test.each([
  ['without a command lists the commands', [], 0, 'stdout', '  test     the tests before a push'],
  ['refuses an unknown command', ['tests'], 2, 'stderr', 'dev: there is no command tests'],
] as const)('./dev %s', async (_title, argv, code, stream, text) => {
  const result = await execa(join(root, 'dev'), argv, { cwd: '/', reject: false });
  expect(result.exitCode).toBe(code);
  expect(result[stream]).toContain(text);
});

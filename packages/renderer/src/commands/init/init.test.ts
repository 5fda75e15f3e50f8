import { lstatSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { initCommand } from './init.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-init-'));
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(dir, { recursive: true });
});

test('replaces a link in place of the schema', async () => {
  writeFileSync(join(dir, 'secret'), 'a secret\n');
  symlinkSync('secret', join(dir, 'sluiceconfig.schema.json'));
  await initCommand(join(dir, 'sluice.yaml'), { output: 'text' });
  expect(readFileSync(join(dir, 'secret'), 'utf8')).toBe('a secret\n');
  expect(lstatSync(join(dir, 'sluiceconfig.schema.json')).isFile()).toBe(true);
});

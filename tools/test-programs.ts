import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { bundleProgram, programNames } from './bundle.ts';

/**
 * Builds both programs as they are shipped, for the tests of one run: they start in half the time of their sources. The folder is removed
 * at the end of this process.
 * @returns the folder with `sluice` and `sluiced`, which start with the Node of this process
 */
export async function buildTestPrograms(root: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-programs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  // Files without an ending are modules only by this.
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  const build = async (name: (typeof programNames)[number]): Promise<void> => {
    const file = join(folder, name);
    await bundleProgram(root, name, file, true, { interpreter: process.execPath });
    chmodSync(file, 0o755);
  };
  await Promise.all(programNames.map(build));
  return folder;
}

/**
 * Whether test files start the programs of `buildTestPrograms`, themselves or by a module of theirs.
 * @param paths of test files, below the checkout
 */
export function runPrograms(root: string, paths: readonly string[]): boolean {
  const seen = new Set<string>();
  const starts = (path: string): boolean => {
    if (seen.has(path)) return false;
    seen.add(path);
    const text = readFileSync(path, 'utf8');
    const imported = [...text.matchAll(/\bfrom '(\.[^']+\.ts)'/g)].map(([, from = '']) => join(dirname(path), from));
    return text.includes('programPath(') || imported.some(starts);
  };
  return paths.some((path) => starts(join(root, path)));
}

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
  for (const name of programNames) {
    const file = join(folder, name);
    await bundleProgram(root, name, file, true, { interpreter: process.execPath });
    chmodSync(file, 0o755);
  }
  return folder;
}

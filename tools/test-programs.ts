import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleProgram, programNames } from './bundle.ts';

/**
 * Builds both programs for the tests of one run, as they are shipped: they start in half the time of their sources. The folder is removed
 * when this process ends.
 * @returns the folder, with `sluice` and `sluiced`, which start with the Node that runs this
 */
export async function buildTestPrograms(root: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-programs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  // Without an ending their names say nothing of modules.
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  for (const name of programNames) {
    const file = join(folder, name);
    await bundleProgram(root, name, file, true, process.execPath);
    chmodSync(file, 0o755);
  }
  return folder;
}

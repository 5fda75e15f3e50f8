/** `./dev build`: one file per program, for Node `oldestNode` or newer. */
import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, programNames } from './bundle.ts';

const root = join(import.meta.dirname, '..');

for (const name of programNames) {
  const outfile = join(root, 'dist', `${name}.mjs`);
  await bundleProgram(root, name, outfile, true);
  chmodSync(outfile, 0o755);
  process.stdout.write(`build: dist/${name}.mjs (${Math.ceil(statSync(outfile).size / 1024)} KiB)\n`);
}

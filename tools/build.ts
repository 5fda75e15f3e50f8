/** `./dev build`: one file per program, for Node `oldestNode` or newer. */
import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, programNames } from './bundle.ts';
import { buildVersion } from './version.ts';

const root = join(import.meta.dirname, '..');
const version = buildVersion(root);

for (const name of programNames) {
  const outfile = join(root, 'dist', `${name}.mjs`);
  await bundleProgram(root, name, outfile, true, { version });
  chmodSync(outfile, 0o755);
  process.stdout.write(
    `build: dist/${name}.mjs, version ${version} (${Math.ceil(statSync(outfile).size / 1024)} KiB)\n`,
  );
}

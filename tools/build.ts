/** `./dev build`: one file per program, for any Node that is new enough. */
import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const programs = { sluice: 'renderer', sluiced: 'applier' } as const;

/** Packages in CommonJS inside call `require`, which a module does not have by itself. */
const banner = `#!/usr/bin/env node
import { createRequire as createRequireOfBundle } from 'node:module';
const require = createRequireOfBundle(import.meta.url);`;

for (const [name, packageName] of Object.entries(programs)) {
  const outfile = join(root, 'dist', `${name}.mjs`);
  await build({
    entryPoints: [join(root, 'packages', packageName, 'src', 'main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minify: true,
    keepNames: true,
    legalComments: 'none',
    banner: { js: banner },
    logLevel: 'warning',
  });
  chmodSync(outfile, 0o755);
  process.stdout.write(`build: dist/${name}.mjs (${Math.ceil(statSync(outfile).size / 1024)} KiB)\n`);
}

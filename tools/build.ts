/** `./dev build`: one file per program, for any Node that is new enough. */
import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const programs = { sluice: 'renderer', sluiced: 'applier' } as const;

/** The oldest Node that the libraries inside support; the same number as `engines` of package.json, without the minor. */
const oldestNode = 24;

/** Packages in CommonJS inside call `require`, which a module does not have by itself. */
const banner = (name: string): string => `#!/usr/bin/env node
import { createRequire as createRequireOfBundle } from 'node:module';
const require = createRequireOfBundle(import.meta.url);
if (Number.parseInt(process.versions.node, 10) < ${oldestNode}) {
  process.stderr.write('${name}: Cannot run on Node ' + process.versions.node + '\\n  Install Node ${oldestNode} or newer\\n');
  process.exit(2);
}`;

for (const [name, packageName] of Object.entries(programs)) {
  const outfile = join(root, 'dist', `${name}.mjs`);
  await build({
    entryPoints: [join(root, 'packages', packageName, 'src', 'main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: `node${oldestNode}`,
    minify: true,
    keepNames: true,
    legalComments: 'none',
    banner: { js: banner(name) },
    logLevel: 'warning',
  });
  chmodSync(outfile, 0o755);
  process.stdout.write(`build: dist/${name}.mjs (${Math.ceil(statSync(outfile).size / 1024)} KiB)\n`);
}

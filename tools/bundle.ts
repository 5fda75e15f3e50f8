/** Both programs as one JavaScript file each. */
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';

/** Program → the package of the workspace that it is made of. */
export const programs = { sluice: 'renderer', sluiced: 'applier' } as const;
export type Program = keyof typeof programs;
export const programNames = Object.keys(programs) as readonly Program[];

/** The oldest Node that the libraries inside support; the same number as `engines` of package.json, without the minor. */
export const oldestNode = 24;

/**
 * Packages in CommonJS inside call `require`, which a module does not have by itself. In an executable only Node's own modules can be
 * required, and the module has no address: it is the bare name that the program was called by, without /proc.
 * @param address an expression: the place that names are looked up from
 */
const needsRequire = (address: string): string => `import { createRequire as createRequireOfBundle } from 'node:module';
const require = createRequireOfBundle(${address});`;

const checksNode = (name: Program): string => `if (Number.parseInt(process.versions.node, 10) < ${oldestNode}) {
  process.stderr.write('${name}: Cannot run on Node ' + process.versions.node + '\\n  Install Node ${oldestNode} or newer\\n');
  process.exit(2);
}`;

/**
 * Node's own modules are required when somebody needs them. As imports of one file all of them would be made ready before its first line
 * runs, with every name that they export: `node:http` alone loads a whole client for fetch then, which costs 30 ms.
 */
const lateBuiltins: Plugin = {
  name: 'late-builtins',
  setup(bundler) {
    bundler.onResolve({ filter: /.*/ }, ({ path, kind }) =>
      isBuiltin(path) && kind !== 'require-call' ? { path, namespace: 'builtin' } : undefined,
    );
    bundler.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)});`,
    }));
  },
};

/**
 * Writes a program with everything it imports as one minified module. The same sources give the same bytes, wherever the checkout is.
 * @param root the checkout
 * @param forAnyNode whether it starts by itself with whatever Node is there; else a Node is put around it
 * @param interpreter what starts it where it starts by itself
 */
export async function bundleProgram(
  root: string,
  name: Program,
  outfile: string,
  forAnyNode: boolean,
  interpreter = '/usr/bin/env node',
): Promise<void> {
  const banner = forAnyNode
    ? [`#!${interpreter}`, needsRequire('import.meta.url'), checksNode(name)]
    : [needsRequire("'file:///'")];
  await build({
    absWorkingDir: root,
    entryPoints: [join(root, 'packages', programs[name], 'src', 'main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: `node${oldestNode}`,
    minify: true,
    keepNames: true,
    legalComments: 'none',
    banner: { js: banner.join('\n') },
    logLevel: 'warning',
    plugins: [lateBuiltins],
  });
}

/** Both programs as one JavaScript file each. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { build, type Plugin } from 'esbuild';

/** Program → its first file. */
export const programs = { sluice: 'packages/sluice/src/main.ts', sluiced: 'packages/applier/src/main.ts' } as const;
export type ProgramName = keyof typeof programs;
export type Programs = Readonly<Record<ProgramName, string>>;
/** The programs of a node: its `sluice` renders, and has no code of reviews and releases. */
export const nodePrograms: Programs = { ...programs, sluice: 'packages/sluice/src/node.ts' };
/**
 * For executables of a node, whose programs run beside pods: while `sluice watch` and `sluiced` start at 10,000 Services, V8's default of
 * 16 MB for young objects takes 45 MB more of each.
 */
export const nodeFlags = ['--max-semi-space-size=4'] as const;
export const programNames = Object.keys(programs) as readonly ProgramName[];

/** The oldest Node that the bundled libraries support: the major version in `engines` of package.json. */
export const oldestNode = 24;

/**
 * Bundled CommonJS packages call `require`, which a module lacks. In an executable only Node's own modules can be required, and its
 * programs have no URL. Not by an import: nothing links the modules of an executable.
 * @param address an expression: the URL that names are resolved from
 */
const needsRequire = (address: string): string =>
  `const require = process.getBuiltinModule('node:module').createRequire(${address});`;

const checksNode = (name: ProgramName): string => `if (Number.parseInt(process.versions.node, 10) < ${oldestNode}) {
  process.stderr.write('${name}: Cannot run on Node ' + process.versions.node + '\\n  Install Node ${oldestNode} or newer\\n');
  process.exit(2);
}`;

/**
 * Each file that imports a CommonJS module gets an object with a getter for every name that the module has: 10,000 getters for Node's own
 * modules in all files of a program, 3 MB. These objects inherit from what the module exports, so one that has no name of its own and
 * inherits the rest costs nothing. Functions are called and extended, and listeners are added to the process: they stay as they are.
 */
const contentsOf = (path: string): string => `const real = require(${JSON.stringify(path)});
module.exports = typeof real === 'function' || real === process || real === console ? real : Object.create(real);`;

/**
 * Requires Node's own modules on first use. As imports of one file all of them would be loaded before its first line runs, with
 * every name that they export: `node:http` alone would load a whole client for fetch, which takes 30 ms.
 */
const lateBuiltins: Plugin = {
  name: 'late-builtins',
  setup(bundler) {
    bundler.onResolve({ filter: /.*/ }, ({ path, kind }) =>
      isBuiltin(path) && kind !== 'require-call' ? { path, namespace: 'builtin' } : undefined,
    );
    bundler.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: contentsOf(path),
    }));
  },
};

/**
 * Takes of the client library only its reader of credentials (decision 15). Its models of all kinds, and undici, which sends its requests,
 * were half of the text of `sluice watch`, and all of them were loaded with it. `client-node.test.ts` says which methods miss them.
 */
const credentialsAlone: Plugin = {
  name: 'credentials-alone',
  setup(bundler) {
    bundler.onLoad({ filter: /client-node\/dist\/index\.js$/ }, () => ({ contents: "export * from './config.js';" }));
    bundler.onResolve({ filter: /^(undici|\.\/gen\/.*|\.\/middleware\.js)$/ }, ({ path, importer }) =>
      /client-node\/dist\//.test(importer) ? { path, namespace: 'left-out' } : undefined,
    );
    bundler.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: 'module.exports = {};' }));
  },
};

/**
 * Writes a program with everything it imports as one minified module. The same sources give the same bytes in any checkout.
 * @param root the checkout
 * @param forAnyNode whether it is a script for an installed Node; otherwise it is for injection into an executable
 * @param version that the program states; without one, that of the checkout
 * @param interpreter of the script
 * @param entry the first file
 * @returns the paths of its source files, from the checkout
 */
export async function bundleProgram(
  root: string,
  name: ProgramName,
  outfile: string,
  forAnyNode: boolean,
  {
    version,
    interpreter = '/usr/bin/env node',
    entry = programs[name],
  }: { readonly version?: string; readonly interpreter?: string; readonly entry?: string } = {},
): Promise<readonly string[]> {
  const banner = forAnyNode
    ? [`#!${interpreter}`, checksNode(name), needsRequire('import.meta.url')]
    : [needsRequire("'file:///'")];
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: [join(root, entry)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: `node${oldestNode}`,
    // Names stay, for messages and stack traces. With `keepNames` instead, each function that is made while the program runs is
    // given its name by a call, which took 7 % of the time of `sluice prove`.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    define: version === undefined ? {} : { builtVersion: JSON.stringify(version) },
    banner: { js: banner.join('\n') },
    logLevel: 'warning',
    plugins: [lateBuiltins, credentialsAlone],
    write: false,
    metafile: true,
  });
  mkdirSync(dirname(outfile), { recursive: true });
  for (const { text } of outputFiles) writeFileSync(outfile, inAscii(withoutPlace(text)));
  return Object.keys(metafile.inputs);
}

/** Parts are named by their paths from the checkout, from which `node_modules` may be a link to anywhere. */
const withoutPlace = (text: string): string =>
  text.replaceAll(/(__(?:esm|commonJS)\(\{")[^"]*?(?=node_modules\/)/g, '$1');

/**
 * V8 keeps a program with one character beyond Latin-1 in two bytes for each: 4 MB for `sluice`. esbuild escapes such characters in
 * strings, not in regular expressions.
 */
const inAscii = (text: string): string =>
  text.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

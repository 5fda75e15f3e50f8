/** The executable: both programs injected into one Node. */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { bundleProgram, programNames, type Programs, programs } from '../bundle.ts';
import { architectures, type Arch, libatomic, nodeBinary } from './node.ts';
import { buildVersion } from '../version.ts';
import { run } from './run.ts';

/**
 * The search path for libatomic.so.1 before the system's own: beside the executable, and the folder of the Debian package. The loader
 * reads $ORIGIN from /proc, which may be missing in the root of an image build.
 */
const libraryPath = '$ORIGIN/../lib/sluice:/usr/lib/sluice';

/**
 * Writes `bin/sluice` with its second name `bin/sluiced`, a link, and `lib/sluice/libatomic.so.1` below `prefix`.
 * @param version that the programs state; without one, that of the build
 * @param entries the first files of both programs
 * @param flags of Node, for each start
 *
 * The order matters: a finished executable cannot be stripped, and injection into a patched Node fails.
 */
export async function buildExecutable(
  root: string,
  arch: Arch,
  prefix: string,
  version?: string,
  entries: Programs = programs,
  flags: readonly string[] = [],
): Promise<void> {
  const work = join(prefix, '.work');
  for (const folder of [work, join(prefix, 'bin'), join(prefix, 'lib/sluice')]) mkdirSync(folder, { recursive: true });
  const node = join(work, 'node');
  copyFileSync(nodeBinary(root, arch), node);
  chmodSync(node, 0o755);
  run(architectures[arch].strip, [node]);
  copyFileSync(join(import.meta.dirname, 'start.mjs'), join(work, 'start.mjs'));
  const stated = version ?? buildVersion(root);
  for (const name of programNames)
    await bundleProgram(root, name, join(work, `${name}.mjs`), false, { version: stated, entry: entries[name] });
  writeFileSync(join(work, 'version'), `${stated}\n`);
  writeFileSync(join(work, 'injection.json'), JSON.stringify(injection(flags)));
  run(process.execPath, ['--build-sea', 'injection.json'], { cwd: work });
  const [first, second] = programNames.map((name) => join(prefix, 'bin', name)) as [string, string];
  run('patchelf', ['--set-rpath', libraryPath, first]);
  chmodSync(first, 0o755);
  symlinkSync(basename(first), second);
  copyFileSync(libatomic(arch), join(prefix, 'lib/sluice/libatomic.so.1'));
  chmodSync(join(prefix, 'lib/sluice/libatomic.so.1'), 0o644);
  rmSync(work, { recursive: true });
}

/** Relative paths: the executable contains them, and must not depend on the build folder. */
const injection = (flags: readonly string[]): object => ({
  main: 'start.mjs',
  mainFormat: 'module',
  assets: { ...Object.fromEntries(programNames.map((name) => [name, `${name}.mjs`])), version: 'version' },
  executable: 'node',
  output: '../bin/sluice',
  // A code cache would make it start faster, but differs between builds and is useless on another architecture.
  useCodeCache: false,
  useSnapshot: false,
  disableExperimentalSEAWarning: true,
  execArgv: ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules', ...flags],
  // NODE_OPTIONS in the environment must not load code into a root daemon.
  execArgvExtension: 'none',
});

/** The relative paths of all files below a folder, sorted by bytes. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

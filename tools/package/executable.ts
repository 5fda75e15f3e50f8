/** Single-file executables: a program injected into Node. */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, programNames } from '../bundle.ts';
import { architectures, type Arch, libatomic, nodeBinary } from './node.ts';
import { run } from './run.ts';

/**
 * The search path for libatomic.so.1 before the system's own: beside the executable, and the folder of the Debian package. The loader
 * reads $ORIGIN from /proc, which may be missing in the root of an image build.
 */
const libraryPath = '$ORIGIN/../lib/sluice:/usr/lib/sluice';

/**
 * Writes `bin/sluice`, `bin/sluiced` and `lib/sluice/libatomic.so.1` below `prefix`.
 * The order matters: a finished executable cannot be stripped, and injection into a patched Node fails.
 */
export async function buildExecutables(root: string, arch: Arch, prefix: string): Promise<void> {
  const work = join(prefix, '.work');
  for (const folder of [work, join(prefix, 'bin'), join(prefix, 'lib/sluice')]) mkdirSync(folder, { recursive: true });
  const node = join(work, 'node');
  copyFileSync(nodeBinary(root, arch), node);
  chmodSync(node, 0o755);
  run(architectures[arch].strip, [node]);
  for (const name of programNames) {
    await bundleProgram(root, name, join(work, `${name}.mjs`), false);
    writeFileSync(join(work, `${name}.json`), JSON.stringify(injection(name)));
    // Relative paths: the executable contains them, and must not depend on the build folder.
    run(process.execPath, ['--build-sea', `${name}.json`], { cwd: work });
    run('patchelf', ['--set-rpath', libraryPath, join(prefix, 'bin', name)]);
    chmodSync(join(prefix, 'bin', name), 0o755);
  }
  copyFileSync(libatomic(arch), join(prefix, 'lib/sluice/libatomic.so.1'));
  chmodSync(join(prefix, 'lib/sluice/libatomic.so.1'), 0o644);
  rmSync(work, { recursive: true });
}

function injection(name: string): object {
  return {
    main: `${name}.mjs`,
    mainFormat: 'module',
    executable: 'node',
    output: `../bin/${name}`,
    // A code cache would make it start faster, but differs between builds and is useless on another architecture.
    useCodeCache: false,
    useSnapshot: false,
    disableExperimentalSEAWarning: true,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // NODE_OPTIONS in the environment must not load code into a root daemon.
    execArgvExtension: 'none',
  };
}

/** The relative paths of all files below a folder, sorted by bytes. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

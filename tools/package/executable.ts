/** Single-file executables: a program of ours inside a Node. */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, programNames } from '../bundle.ts';
import { architectures, type Arch, libatomic, nodeBinary } from './node.ts';
import { run } from './run.ts';

/**
 * Where an executable looks for libatomic.so.1 before the system's own places: beside itself, and where the Debian package puts it. The
 * loader reads $ORIGIN from /proc, which a root that an image is built in may not have.
 */
const libraryPath = '$ORIGIN/../lib/sluice:/usr/lib/sluice';

/**
 * Writes `bin/sluice`, `bin/sluiced` and `lib/sluice/libatomic.so.1` below `prefix`.
 * The order is forced: a finished executable cannot be stripped, and a Node that was patched first cannot be injected into.
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
    // Relative paths: what the executable remembers of its making must not depend on where that was.
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
    // A code cache would start it faster, but differs from build to build and is useless on another architecture.
    useCodeCache: false,
    useSnapshot: false,
    disableExperimentalSEAWarning: true,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // NODE_OPTIONS of whoever starts it must not load code into a daemon of root.
    execArgvExtension: 'none',
  };
}

/** Every file below a folder with its path from there, sorted by bytes. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

// The start of the executables without Node installed. Run it with `node test/bench/executables.ts`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programNames, type Programs } from '../../tools/bundle.ts';
import { buildExecutable } from '../../tools/package/executable.ts';
import { archNames } from '../../tools/package/node.ts';
import { PackageError } from '../../tools/package/run.ts';
import { interleave, ms, ratio, report, runMeasured } from './measure.ts';

/**
 * Builds the executables of this machine as `./dev package` does, and starts them.
 * @param root the checkout
 * @param folder for the executables
 */
export async function executablesBench(root: string, folder: string, rounds: number): Promise<void> {
  const whyNot = await buildHere(root, folder);
  if (whyNot !== undefined) {
    process.stdout.write(`executables: not measured, ${whyNot}\n`);
    return;
  }
  for (const program of programNames) {
    const file = join(folder, 'bin', program);
    const runs = await interleave(rounds * 3, {
      ours: () => runMeasured(file, ['--version']),
      again: () => runMeasured(file, ['--version']),
      bare: () => runMeasured(process.execPath, ['-e', '0']),
    });
    report(
      `${program} --version, the executable`,
      `${ms(runs.ours.seconds)}, ${runs.ours.megabytes.toFixed(0)} MB`,
      'under 100 ms',
      `node -e 0 ${ms(runs.bare.seconds)}, ratio ${ratio(runs.ours.seconds, runs.bare.seconds)}; A/A control ${ratio(runs.again.seconds, runs.ours.seconds)}`,
    );
  }
}

/**
 * Builds the executables of this machine: `bin/sluice` and `bin/sluiced` below a folder.
 * @param more of the executables of a node
 * @returns the reason why they cannot be built: a missing tool, or another architecture
 */
export async function buildHere(
  root: string,
  folder: string,
  ...more: readonly [entries?: Programs, flags?: readonly string[]]
): Promise<string | undefined> {
  const arch = archNames.find((name) => name === process.arch);
  if (arch === undefined) return `they are built for ${archNames.join(' and ')}`;
  try {
    await buildExecutable(root, arch, folder, undefined, ...more);
    return undefined;
  } catch (error) {
    if (error instanceof PackageError) return `${error.message} (${error.hint})`;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return `${(error as Error).message} (see ./dev package)`;
    throw error;
  }
}

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-executables-'));
  try {
    await executablesBench(join(import.meta.dirname, '../..'), folder, 3);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// The executables without a Node beside them: how fast they start.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { interleave, ms, ratio, report, runMeasured } from './measure.ts';

/** Needs what `./dev package` built before. */
export async function executablesBench(root: string, scratch: string, rounds: number): Promise<void> {
  const folder = join(root, 'dist/release');
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const deb = names(folder).find((name) => name.endsWith(`_${arch}.deb`));
  if (deb === undefined) {
    process.stdout.write('executables: not measured, ./dev package builds them\n');
    return;
  }
  execFileSync('dpkg-deb', ['-x', join(folder, deb), join(scratch, 'deb')]);
  for (const program of ['sluice', 'sluiced']) {
    const file = join(scratch, 'deb/usr/bin', program);
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

function names(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

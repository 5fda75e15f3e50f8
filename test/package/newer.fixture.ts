import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';

/** A version that is higher than every real one. */
export const newer = '9.9.9';

/** Writes the same package under a higher version. */
export function newerThan(deb: string, target: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-newer-'));
  try {
    execaSync('dpkg-deb', ['-R', deb, join(folder, 'root')]);
    const control = join(folder, 'root/DEBIAN/control');
    writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${newer}`));
    execaSync('dpkg-deb', ['--root-owner-group', '-Zzstd', '-z1', '--build', join(folder, 'root'), target]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

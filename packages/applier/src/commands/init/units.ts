import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where systemd finds units, below `/`: systemd.unit(5). The first one is the administrator's. */
const unitFolders = ['etc', 'run', 'usr/local/lib', 'usr/lib', 'lib'].map((folder) => `${folder}/systemd/system`);

/**
 * The units that this machine lacks: a package installs them, an archive that was unpacked elsewhere has them beside its programs.
 * @param bin the folder of the running program; units name it in the place of /usr/bin
 * @param root of the machine
 * @returns path → text; empty where systemd does not run, and where no unit is beside the program
 */
export function missingUnits(bin: string, root = '/'): ReadonlyMap<string, string> {
  const shipped = join(bin, '../lib/systemd/system');
  const isUsable = existsSync(join(root, 'run/systemd/system')) && existsSync(shipped) && /^[\w./+-]+$/.test(bin);
  const names = isUsable
    ? readdirSync(shipped)
        .filter((name) => name.startsWith('sluiced'))
        .toSorted()
    : [];
  const missing = names.filter((name) => !unitFolders.some((folder) => existsSync(join(root, folder, name))));
  return new Map(
    missing.map((name) => [
      join(root, unitFolders[0] ?? '', name),
      readFileSync(join(shipped, name), 'utf8').replaceAll('/usr/bin/sluiced', join(bin, 'sluiced')),
    ]),
  );
}

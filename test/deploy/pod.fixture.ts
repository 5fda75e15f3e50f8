import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { programPath } from '@sluice/testing';
import { passwd } from '../../tools/package/images/plans.ts';
import type { NodeContainer, NodePod } from './chart.fixture.ts';

/** The containers of a pod as a kubelet runs them: their users, capabilities and mounts, on this machine's tools instead of the image. */

const checkout = join(import.meta.dirname, '../..');

/** What a volume has that is not a folder of the pod alone: texts of a ConfigMap or Secret, or a folder of the node. */
export interface VolumeContents {
  readonly files?: Readonly<Record<string, string>>;
  readonly folder?: string;
}

interface Mount {
  readonly source: string;
  readonly path: string;
  readonly isReadOnly: boolean;
}

const root = `
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$ROOT"
cd "$ROOT"
mkdir -p usr proc dev etc/sluice run var/lib/sluice tmp checkout programs node
for name in bin sbin lib lib64; do ln -s "usr/$name" "$name"; done
printf %s "$PASSWD" >etc/passwd
for name in usr proc dev; do mount --rbind "/$name" "$name"; done
mount --bind "$CHECKOUT" checkout; mount --bind "$PROGRAMS" programs; mount --bind "$NODE" node
`;

/** A pod on a node, with its volumes in a folder that does not exist yet. */
export class PodFolder {
  readonly #folder: string;
  readonly #volumes: ReadonlyMap<string, VolumeContents>;

  constructor(folder: string, { volumes }: NodePod, contents: Readonly<Record<string, VolumeContents>>) {
    this.#folder = folder;
    this.#volumes = new Map(volumes.map(({ name }) => [name, contents[name] ?? {}]));
    mkdirSync(join(folder, 'root'), { recursive: true });
    // The folder of the run can be read by its user alone.
    cpSync(dirname(programPath('sluiced')), join(folder, 'programs'), { recursive: true });
    execFileSync('/bin/chmod', ['0755', join(folder, 'programs')]);
    for (const [name, { files }] of this.#volumes) {
      // As an emptyDir: all users may write. Where a kubelet would find a folder of the node, one of root.
      mkdirSync(join(folder, name), { recursive: true, mode: 0o777 });
      execFileSync('/bin/chmod', [name === 'state' ? '0755' : '0777', join(folder, name)]);
      if (files) writeProjected(join(folder, name), files);
    }
  }

  /**
   * Runs a container until it ends.
   * @param command instead of its own
   * @returns what it prints
   * @throws when it fails
   */
  run({ env = [], securityContext, volumeMounts, ...container }: NodeContainer, command = container.command): string {
    const mounts = volumeMounts.map(({ name, mountPath, subPath = '', readOnly }): Mount => {
      const volume = this.#volumes.get(name);
      if (!volume) throw new Error(`the pod has no volume ${name}`);
      const top = volume.folder ?? join(this.#folder, name);
      const source = join(top, subPath);
      // A kubelet gives a new folder the mode of the volume.
      execFileSync('/bin/sh', ['-c', '[ -d "$1" ] || { mkdir "$1"; chmod --reference="$2" "$1"; }', 'sh', source, top]);
      return { source, path: mountPath, isReadOnly: readOnly === true };
    });
    const binds = mounts.map(
      ({ source, path, isReadOnly }) =>
        `mkdir -p ".${path}"; mount --bind '${source}' ".${path}"${isReadOnly ? `; mount -o remount,bind,ro ".${path}"` : ''}\n`,
    );
    const { runAsUser, capabilities } = securityContext;
    if (capabilities?.add) throw new Error(`${container.name} has capabilities`);
    const user = ['--reuid', `${runAsUser}`, '--regid', `${runAsUser}`, '--clear-groups', '--no-new-privs'];
    const none = ['--inh-caps=-all', '--bounding-set=-all'];
    const script = `${root}${binds.join('')}mount -o remount,ro "$ROOT"\nexec chroot . setpriv ${[...user, ...none].join(' ')} "$@"`;
    const own = (word: string): readonly string[] =>
      word === '/usr/bin/sluiced' ? ['/node/node', '/programs/sluiced'] : word === 'node' ? ['/node/node'] : [word];
    return execFileSync('unshare', ['--mount', 'sh', '-ec', script, 'sh', ...command.flatMap(own)], {
      encoding: 'utf8',
      stdio: 'pipe',
      env: {
        PATH: '/usr/bin:/usr/sbin',
        PASSWD: passwd,
        ROOT: join(this.#folder, 'root'),
        CHECKOUT: checkout,
        PROGRAMS: join(this.#folder, 'programs'),
        NODE: dirname(process.execPath),
        ...Object.fromEntries(env.map(({ name, value = 'node-a' }) => [name, value])),
      },
    });
  }
}

/** As a kubelet writes a ConfigMap or a Secret, which it replaces by renaming one link. */
function writeProjected(folder: string, files: Readonly<Record<string, string>>): void {
  execFileSync('/bin/chmod', ['1777', folder]);
  mkdirSync(join(folder, '..2026_12_01'), { mode: 0o755 });
  symlinkSync('..2026_12_01', join(folder, '..data'));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, '..data', name), text, { mode: 0o444 });
    symlinkSync(`..data/${name}`, join(folder, name));
  }
}

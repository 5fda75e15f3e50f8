import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Host } from '../netns/cluster-host.ts';

/** Where a hierarchy of control groups of the first version is mounted, with the group that this process is in. */
interface Hierarchy {
  /** Its controllers, or `name=systemd`. */
  readonly name: string;
  readonly own: string;
}

/** Every hierarchy: a kubelet ends the processes of pods that it does not know in each. Empty where the machine has the second version alone. */
function hierarchies(): readonly Hierarchy[] {
  const mounted = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, path = '', type] = line.split(' ');
      return type === 'cgroup' ? [path] : [];
    });
  return readFileSync('/proc/self/cgroup', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, name = '', group = '/'] = line.split(':');
      const path = mounted.find((one) => one.endsWith(`/${name.replace('name=', '')}`));
      return name === '' || path === undefined ? [] : [{ name, own: join(path, group) }];
    });
}

/** What a machine of the test lacks for nodes with a kubelet; undefined where nothing is missing. */
export const lackOfGroups = (): string | undefined =>
  hierarchies().some(({ name }) => name === 'memory') ? undefined : 'needs control groups of version 1';

/** A group of each hierarchy, below that of the test. Groups of a run that was killed are removed first: nothing runs in them any more. */
function makeGroups(name: string): readonly Hierarchy[] {
  return hierarchies().map((hierarchy) => {
    const own = join(hierarchy.own, `sluice-node-${name}`);
    removeGroup(own);
    mkdirSync(own, { recursive: true });
    if (hierarchy.name === 'cpuset')
      for (const file of ['cpuset.cpus', 'cpuset.mems'])
        writeFileSync(join(own, file), readFileSync(join(dirname(own), file)));
    return { ...hierarchy, own };
  });
}

/** With the groups in it, deepest first. What is in use stays. */
function removeGroup(path: string): boolean {
  try {
    for (const entry of readdirSync(path, { withFileTypes: true }))
      if (entry.isDirectory()) removeGroup(join(path, entry.name));
    rmdirSync(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return true;
    if (code === 'EBUSY') return false;
    throw error;
  }
}

/**
 * Files of the kernel for the whole machine, covered by files. A kubelet finds what it wants to set in all but the last one, which the
 * machine's own network namespace alone can write, and Sluice with its default profile writes.
 */
const covered: Readonly<Record<string, number>> = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
  'net/netfilter/nf_conntrack_max': 262_144,
};

/** What is written there stays in the folder of the machine, as do packages that it installs: those of the test's own machine are only read. */
const layered = ['/etc', '/opt', '/usr', '/var/lib', '/var/log'];
/** Folders that are no layer: layers of containers cannot lie on one. */
const ownFolders = ['/var/lib/containerd', '/var/lib/kubelet'];

/** A machine with its own processes, mounts, network, name, and control groups. */
export interface Machine {
  readonly host: Host;
  close(): Promise<void>;
}

/** @param folder for the state of the machine: the test removes it */
export async function startMachine(name: string, folder: string): Promise<Machine> {
  const groups = makeGroups(name);
  const joining =
    'for group; do [ "$group" = -- ] && break; echo $$ > "$group/cgroup.procs"; shift; done; shift; exec "$@"';
  const host = await Host.start(name, {
    namespaces: ['--uts', '--cgroup'],
    starter: ['sh', '-ec', joining, 'join', ...groups.map(({ own }) => own), '--'],
  });
  const close = async (): Promise<void> => {
    await host.close();
    // The last process has been waited for; the kernel empties the groups a little later.
    for (let looks = 0; looks < 100 && !groups.every(({ own }) => removeGroup(own)); looks++) await sleep(50);
  };
  try {
    for (const path of ownFolders) mkdirSync(join(folder, path), { recursive: true });
    for (const path of layered)
      for (const kind of ['upper', 'work']) mkdirSync(join(folder, kind, path), { recursive: true });
    for (const [file, value] of Object.entries(covered))
      writeFileSync(join(folder, file.replaceAll('/', '.')), `${value}\n`);
    await host.run(['sh', '-ec', setUp(name, folder, groups)]);
  } catch (error) {
    await close();
    throw error;
  }
  return { host, close };
}

function setUp(name: string, folder: string, groups: readonly Hierarchy[]): string {
  return [
    `hostname ${name}`,
    'mount -t sysfs sysfs /sys',
    'mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup',
    ...groups.flatMap(({ name: hierarchy }) => {
      const path = `/sys/fs/cgroup/${hierarchy.replace('name=', '')}`;
      const options = hierarchy.startsWith('name=') ? `none,${hierarchy}` : hierarchy;
      return [`mkdir ${path}`, `mount -t cgroup -o ${options} cgroup ${path}`];
    }),
    ...layered.map((path) => {
      const of = `lowerdir=${path},upperdir=${join(folder, 'upper', path)},workdir=${join(folder, 'work', path)}`;
      return `mount -t overlay -o ${of} overlay ${path}`;
    }),
    ...ownFolders.flatMap((path) => [`mkdir -p ${path}`, `mount --bind ${join(folder, path)} ${path}`]),
    ...Object.keys(covered).map((file) => `mount --bind ${join(folder, file.replaceAll('/', '.'))} /proc/sys/${file}`),
    'mkdir -p /run/lock /run/netns',
  ].join('\n');
}

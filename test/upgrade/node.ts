import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { peek } from '../../packages/applier/src/state/peek.ts';
import type { NodeRecord } from '../../packages/applier/src/state/record.ts';
import { type Cluster, openCluster } from '../netns/cluster.ts';
import type { Daemon, ExecResult, Host } from '../netns/cluster-host.ts';

/** The folder with the data of all versions. */
export const upgradeFolder = import.meta.dirname;

/** The configuration of a node that an earlier version left. */
export interface Setup {
  /** The name of its folder. */
  readonly name: string;
  readonly backend: 'nft' | 'legacy';
  readonly layout: 'tree' | 'flat';
}

/** The setups with data. Mode ipvs needs a kernel with IPVS. */
export const setups: readonly Setup[] = [
  { name: 'tree-nft', backend: 'nft', layout: 'tree' },
  { name: 'tree-legacy', backend: 'legacy', layout: 'tree' },
  { name: 'flat-nft', backend: 'nft', layout: 'flat' },
];

/** The versions with data, the oldest first. */
export const versions: readonly string[] = readdirSync(upgradeFolder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && /^\d+\.\d+\.\d+$/.test(entry.name))
  .map(({ name }) => name)
  .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }));

/** Two nodes, three pods that serve, a client pod, and an outside with one address that no source range has. */
export const openUpgradeCluster = (): Promise<Cluster> =>
  openCluster({
    nodes: [1, 2].map((n) => ({
      name: `node-${n}`,
      addresses: [`192.0.2.1${n}`, `2001:db8:2::1${n}`],
      podCIDRs: [`10.244.${n}.0/24`, `fd00:10:244:${n}::/64`],
    })),
    pods: [
      { name: 'a', node: 'node-1', addresses: ['10.244.1.5', 'fd00:10:244:1::5'], ports: [] },
      { name: 'b', node: 'node-1', addresses: ['10.244.1.6', 'fd00:10:244:1::6'], ports: [] },
      { name: 'c', node: 'node-2', addresses: ['10.244.2.5', 'fd00:10:244:2::5'], ports: [] },
      { name: 'client', node: 'node-1', addresses: ['10.244.1.20', 'fd00:10:244:1::20'], ports: [] },
    ],
    outside: ['198.51.100.7', '2001:db8:51::7', '203.0.113.200'],
  });

/** All files of the node, in its own /run: so none of them contains the path where it was made. */
const home = '/run/upgrade';
const config = ['-c', `${home}/sluiced.yaml`];

/** Excludes files and sockets of the state directory that belong to a process, or that must not be kept. */
const isKept = (path: string): boolean => !/\/(receipt_key|lock)$/.test(path);

/** node-1 of the cluster, with `sluiced` on it. */
export class UpgradeNode {
  readonly #host: Host;
  readonly #sluiced: string;
  readonly #setup: Setup;

  constructor(host: Host, sluiced: string, setup: Setup) {
    this.#host = host;
    this.#sluiced = sluiced;
    this.#setup = setup;
  }

  /** A path on the node, as seen from here. */
  #outside(path: string): string {
    return `/proc/${this.#host.pid}/root${home}/${path}`;
  }

  /** Copies a file or folder to the node, and replaces an existing one. */
  async put(from: string, name: string): Promise<void> {
    const [to, fresh, old] = [join(home, name), join(home, `${name}.new`), join(home, `${name}.old`)];
    await this.#host.run(['sh', '-ec', `mkdir -p ${home}; rm -rf ${fresh} ${old}; cp -r "$0" ${fresh}`, from]);
    await this.#host.run(['sh', '-ec', `if [ -e ${to} ]; then mv ${to} ${old}; fi; mv ${fresh} ${to}; rm -rf ${old}`]);
    if (name === 'state') await this.#host.run(['chmod', '-R', 'go-rwx', to]);
  }

  /** Copies a folder of the node; of the state without the excluded files. */
  take(name: string, to: string): void {
    cpSync(this.#outside(name), to, { recursive: true, filter: isKept });
  }

  read(name: string): string {
    return readFileSync(this.#outside(name), 'utf8');
  }

  sluiced(...args: readonly string[]): Promise<ExecResult> {
    return this.#host.exec([process.execPath, this.#sluiced, ...args, ...config], { timeoutMs: 60_000 });
  }

  /** `sluiced status`; while the daemon does not answer yet, `daemon` is null, which is not an error. */
  async status(): Promise<UpgradeNodeStatus> {
    return JSON.parse((await this.sluiced('status', '-o', 'json')).stdout) as UpgradeNodeStatus;
  }

  /** Makes the key that signs receipts. @returns its line for `allowed_receipts` */
  async keygen(): Promise<string> {
    return `${(await this.sluiced('keygen')).stdout}\n`;
  }

  /** Starts `sluiced run`. */
  start(): Daemon {
    return this.#host.start([process.execPath, this.#sluiced, 'run', ...config]);
  }

  /** The record of the journal; undefined before it exists, and while it is being made. */
  journal(): NodeRecord | undefined {
    try {
      return peek(this.#outside('state'));
    } catch {
      return undefined;
    }
  }

  /** Whether the release of a serial is confirmed and no transaction is open. */
  confirmed(serial: number): boolean {
    const { open, current, history } = this.journal() ?? {};
    return open === null && current?.number === serial && history?.at(-1)?.what === 'confirmed';
  }

  /** Whether the node has signed a receipt about the release of a serial. */
  hasReceipt(serial: number): boolean {
    const folder = this.#outside('receipts');
    if (!existsSync(folder)) return false;
    const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
    return names.some((name) => readFileSync(join(folder, name), 'utf8').includes(`"serial": ${serial},`));
  }

  /** The rules of both families in the kernel. */
  async rules(): Promise<SavedRules> {
    const { backend } = this.#setup;
    const [ipv4, ipv6] = await Promise.all(
      ['iptables', 'ip6tables'].map((tool) => this.#host.run([`/usr/sbin/${tool}-${backend}-save`])),
    );
    return { 'iptables.save': plain(ipv4 ?? ''), 'ip6tables.save': plain(ipv6 ?? '') };
  }

  /** Loads rules into the kernel, and the tunables of a release, as the earlier version had them. */
  async restore(rules: SavedRules, release: string): Promise<void> {
    const { backend } = this.#setup;
    await this.#host.run([`/usr/sbin/iptables-${backend}-restore`], { input: rules['iptables.save'] });
    await this.#host.run([`/usr/sbin/ip6tables-${backend}-restore`], { input: rules['ip6tables.save'] });
    await this.#host.run(['/usr/sbin/sysctl', '-q', '-p', join(release, 'profiles/default/base/sysctl.conf')]);
  }
}

/** The fields of `sluiced status -o json` that tests read. */
interface UpgradeNodeStatus {
  readonly daemon: { readonly healthy: boolean } | null;
}

/** The output of the save tools by file name, with counters of 0 and without dates. */
export interface SavedRules {
  readonly 'iptables.save': string;
  readonly 'ip6tables.save': string;
}

/** The rules that an earlier version left. */
export const rulesIn = (folder: string): SavedRules => ({
  'iptables.save': readFileSync(join(folder, 'iptables.save'), 'utf8'),
  'ip6tables.save': readFileSync(join(folder, 'ip6tables.save'), 'utf8'),
});

/**
 * A save tool of the legacy store prints its tables in the order of their creation, and its restore tool requires a newline
 * after the last COMMIT.
 */
const plain = (saved: string): string =>
  saved
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => `${line.replace(/\[\d+:\d+\]$/, '[0:0]')}\n`)
    .join('')
    .split(/^(?=\*)/m)
    .toSorted()
    .join('');

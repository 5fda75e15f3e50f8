import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ParityReport } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import type { Host } from '../netns/cluster-host.ts';
import type { KubeItem } from './api-server.ts';
import { nodeName } from './clusters.ts';
import { fenceOf } from './fence.ts';
import { KubeProxyNode, syncTimeoutMs } from './kube-proxy-node.ts';
import type { ParityPrograms } from './programs.ts';
import type { ProxyConfig, ProxySetting } from './settings.ts';
import { Renderer } from './sluice-node.ts';
import type { WiredNode } from './wire.ts';

/** A node with the real kube-proxy, observed and compared with bundles of the same objects. */
export class ObservedKubeProxy {
  readonly #node: KubeProxyNode;
  readonly #dir: string;
  readonly #programs: ParityPrograms;
  readonly #setting: ProxySetting;
  #cluster: readonly KubeItem[] = [];
  #reports = 0;
  #states = 0;

  private constructor(node: KubeProxyNode, dir: string, programs: ParityPrograms, setting: ProxySetting) {
    this.#node = node;
    this.#dir = dir;
    this.#programs = programs;
    this.#setting = setting;
  }

  /** @param known the Nodes at the start of kube-proxy */
  static async start(
    programs: ParityPrograms,
    setting: ProxySetting,
    cluster: readonly KubeItem[],
    known?: readonly KubeItem[],
  ): Promise<ObservedKubeProxy> {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-observed-'));
    const node = await KubeProxyNode.start(programs.kubeProxy, programs.wire, setting, join(dir, 'kube-proxy'), known);
    const observed = new ObservedKubeProxy(node, dir, programs, setting);
    try {
      await observed.put(cluster);
      return observed;
    } catch (error) {
      await observed.close();
      throw error;
    }
  }

  /** Gives it these objects alone. Ends once every rule of them is in the kernel. */
  async put(cluster: readonly KubeItem[]): Promise<void> {
    await this.#node.put(cluster);
    // Its last change is known by the fence; in mode ipvs there is a second change.
    this.#states += this.#setting.config?.['mode'] === 'ipvs' ? 2 : 1;
    this.#cluster = [...cluster, ...fenceOf(this.#states)];
  }

  /** The node and its wires. */
  get wired(): WiredNode {
    return this.#node.node;
  }

  /** The objects that kube-proxy has. */
  get objects(): readonly KubeItem[] {
    return this.#cluster;
  }

  /** Ends kube-proxy; what it put into the kernel stays. */
  stopProxy(): Promise<void> {
    return this.#node.stop();
  }

  /** Runs shell commands on the node. */
  async run(script: string): Promise<string> {
    return this.#node.node.host.run(['/bin/sh', '-ec', script]);
  }

  /** Renders the objects of kube-proxy, by default with its own settings. @returns the bundle directory */
  async render(
    change: ProxyConfig = {},
    objects: (cluster: readonly KubeItem[]) => readonly KubeItem[] = (all) => all,
  ): Promise<string> {
    const dir = join(this.#dir, `renderer-${++this.#reports}`);
    mkdirSync(dir);
    const setting = { ...this.#setting, config: { ...this.#setting.config, ...change } };
    const renderer = new Renderer(setting, this.#programs.minor, dir);
    await renderer.render(objects(this.#cluster));
    return renderer.bundle;
  }

  /** `sluiced observe` on the node. @returns the file */
  observe(): Promise<string> {
    return observeOn(this.#node.node.host, join(this.#dir, `observed-${++this.#reports}`));
  }

  /** Outputs of tools, as people save them, through `sluiced observe --from`. @returns the file */
  async observeSaved(): Promise<string> {
    const folder = join(this.#dir, `saved-${++this.#reports}`);
    mkdirSync(folder);
    for (const [name, command] of savedBy)
      await this.#node.node.host.run(['/bin/sh', '-ec', `{ ${command}; } >"$1"`, 'sh', join(folder, name)]);
    const file = join(folder, 'observed.json');
    const argv = [programPath('sluiced'), 'observe', '--from', folder, '--node', nodeName, '-o', file];
    await execa(process.execPath, argv);
    return file;
  }

  async close(): Promise<void> {
    await this.#node.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

const savedBy = [
  ['iptables-save.txt', 'iptables-nft-save'],
  ['ip6tables-save.txt', 'ip6tables-nft-save'],
  ['iptables-legacy-save.txt', 'true'],
  ['ip6tables-legacy-save.txt', 'true'],
  ['ip-addr.txt', 'ip addr'],
  ['ip-route.txt', 'ip route show table all; ip -6 route show table all'],
  ['nft.txt', 'nft list ruleset'],
  ['sysctl.txt', 'sysctl -a 2>/dev/null || true'],
] as const;

/** `sluiced observe` on a host. @param folder a new one @returns the file */
export async function observeOn(host: Host, folder: string): Promise<string> {
  mkdirSync(folder);
  const [file, config] = [join(folder, 'observed.json'), join(folder, 'sluiced.yaml')];
  const values = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluicedConfig',
    node: nodeName,
    state: join(folder, 'state'),
    signatures: { policy: 'none' },
  };
  writeFileSync(config, JSON.stringify(values));
  await host.run([process.execPath, programPath('sluiced'), 'observe', '-c', config, '-o', file], {
    timeoutMs: syncTimeoutMs,
  });
  return file;
}

/** `sluice parity -o json`, with its exit code. */
export async function parity(
  observed: string,
  bundle: string,
): Promise<{ readonly exitCode: number | undefined; readonly report: ParityReport }> {
  const args = [programPath('sluice'), 'parity', observed, bundle, '--node', nodeName, '-o', 'json'];
  const { exitCode, stdout, stderr } = await execa(process.execPath, args, { reject: false });
  if (stdout === '') throw new Error(`sluice parity: exit code ${exitCode}\n${stderr}`);
  return { exitCode, report: JSON.parse(stdout) as ParityReport };
}

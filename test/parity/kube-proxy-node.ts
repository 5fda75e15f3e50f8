import { request } from 'node:http';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Daemon } from '../netns/cluster-host.ts';
import type { KubeChange, KubeItem } from './api-server.ts';
import { nodeName, nodes } from './clusters.ts';
import { fenceOf, isFenceIn, withoutFence } from './fence.ts';
import { type ProxyConfig, proxyConfig, type ProxySetting } from './settings.ts';
import { type Saved, WiredNode } from './wire.ts';

const port = 18_080;
const kubeconfig = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
  users: [{ name: 'u', user: {} }],
  contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
  'current-context': 'x',
};

/** The configuration of the program itself: its server, and no delay of writes. */
function ownConfig(setting: ProxySetting, dir: string): ProxyConfig {
  const config = proxyConfig(setting);
  const withDefaults = (section: string, defaults: ProxyConfig): ProxyConfig => ({
    [section]: { ...defaults, ...(config[section] as ProxyConfig | undefined) },
  });
  const contentType = 'application/json';
  return {
    ...config,
    hostnameOverride: nodeName,
    clientConnection: { kubeconfig: join(dir, 'kubeconfig'), contentType, acceptContentTypes: contentType },
    ...withDefaults('iptables', { minSyncPeriod: '10ms' }),
    ...withDefaults('nftables', { minSyncPeriod: '10ms' }),
    // A namespace cannot set the limits of the machine.
    ...withDefaults('conntrack', { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' }),
  };
}

/** The real kube-proxy on a node of its own, with an API server of its own. */
export class KubeProxyNode {
  readonly node: WiredNode;
  readonly #daemons: readonly Daemon[];
  readonly #socket: string;
  readonly #isIpvs: boolean;
  #cluster: readonly KubeItem[] = nodes;
  #fence = 0;

  private constructor(node: WiredNode, daemons: readonly Daemon[], socket: string, isIpvs: boolean) {
    this.node = node;
    this.#socket = socket;
    this.#isIpvs = isIpvs;
    this.#daemons = daemons;
  }

  /** @param dir an empty directory */
  static async start(binary: string, wire: string, setting: ProxySetting, dir: string): Promise<KubeProxyNode> {
    mkdirSync(dir, { recursive: true });
    const node = await WiredNode.start('kube-proxy', wire, setting.commands);
    // It looks up its Node at once, and continues without one.
    writeFileSync(join(dir, 'objects.json'), JSON.stringify(nodes));
    writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
    writeFileSync(join(dir, 'kube-proxy.yaml'), JSON.stringify(ownConfig(setting, dir)));
    const server = join(import.meta.dirname, 'api-server.ts');
    const api = node.host.start([process.execPath, server, join(dir, 'objects.json'), String(port)]);
    const proxy = node.host.start([binary, '--config', join(dir, 'kube-proxy.yaml')]);
    return new KubeProxyNode(node, [proxy, api], join(dir, 'api.sock'), setting.config?.['mode'] === 'ipvs');
  }

  /** Sends new, removed and changed objects to the server. Ends once every rule of the cluster is in the kernel. */
  async put(cluster: readonly KubeItem[]): Promise<void> {
    const wanted = [...cluster, ...fenceOf(++this.#fence)];
    const changes = changesBetween(this.#cluster, wanted);
    this.#cluster = wanted;
    await this.#until('the server takes changes', () => post(this.#socket, '/change', JSON.stringify(changes)));
    await this.#until('kube-proxy has written all rules', () => this.#isPast(this.#fence));
    if (this.#isIpvs) await this.#untilStill();
  }

  /** Mode ipvs writes virtual servers first, then sets and rules, which do not reveal the state. */
  async #untilStill(): Promise<void> {
    let last = '';
    await this.#until('sets and rules stay', async () => {
      await sleep(stillMs);
      const before = last;
      const looks = [['/usr/sbin/ipset', 'save'], ...saveTools.slice(0, 2)].map((tool) => this.node.host.run(tool));
      last = (await Promise.all(looks)).join('').replaceAll(/^[#:].*$|timeout \d+/gm, '');
      return last === before;
    });
  }

  /** Without the fence. */
  async saved(): Promise<Saved> {
    const { IPv4, IPv6 } = await this.node.saved();
    return { IPv4: withoutFence(IPv4), IPv6: withoutFence(IPv6) };
  }

  async close(): Promise<void> {
    for (const daemon of this.#daemons) await daemon.stop();
    await this.node.close();
  }

  /** Its informers deliver Services and slices in the order of their changes: the last of each is in the rules once all are. */
  async #isPast(fence: number): Promise<boolean> {
    const { host } = this.node;
    const saved = await Promise.all(saveTools.map((tool) => host.run(tool).catch(() => '')));
    return isFenceIn(fence, `${saved[0]}${saved[2]}${saved[4]}`, `${saved[1]}${saved[3]}${saved[4]}`);
  }

  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + syncTimeoutMs;
    while (!(await isSo())) {
      if (performance.now() > end)
        throw new Error(`timed out after ${syncTimeoutMs / 1000} s, waiting until ${what}\n${await this.#log()}`);
      await sleep(pauseMs);
    }
  }

  async #log(): Promise<string> {
    for (const daemon of this.#daemons) await daemon.stop();
    return (await Promise.all(this.#daemons.map(({ ended }) => ended))).map(({ output }) => output).join('\n');
  }
}

const isInGuest = process.env['SLUICE_GUEST'] === '1';
/** An emulated machine is slow. */
export const syncTimeoutMs = isInGuest ? 600_000 : 60_000;

/** Between two looks, each of which starts five tools: in the guest they would take the processor from kube-proxy. */
const pauseMs = isInGuest ? 3_000 : 50;

/** How long sets and rules stay as they are once kube-proxy is done. */
const stillMs = isInGuest ? 15_000 : 1_000;

/** @returns whether it was accepted */
function post(socketPath: string, path: string, body: string): Promise<boolean> {
  return new Promise((resolve) => {
    const sending = request({ socketPath, path, method: 'POST' }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode === 200));
    });
    sending.on('error', () => resolve(false)).end(body);
  });
}

const saveTools: readonly (readonly string[])[] = [
  ['/usr/sbin/iptables-nft-save', '-t', 'nat'],
  ['/usr/sbin/ip6tables-nft-save', '-t', 'nat'],
  ['/usr/sbin/nft', 'list', 'ruleset', 'ip'],
  ['/usr/sbin/nft', 'list', 'ruleset', 'ip6'],
  ['/usr/sbin/ipvsadm', '-Sn'],
];

/** The changes from one state of a cluster to another, in the order of the new one: removals first. */
export function changesBetween(before: readonly KubeItem[], after: readonly KubeItem[]): readonly KubeChange[] {
  const keyOf = ({ kind, metadata: { namespace = '', name } }: KubeItem): string => `${kind} ${namespace}/${name}`;
  const known = new Map(before.map((item) => [keyOf(item), item]));
  const wanted = new Set(after.map(keyOf));
  return [
    ...before.filter((item) => !wanted.has(keyOf(item))).map((item): KubeChange => ({ type: 'remove', item })),
    ...after
      .filter((item) => !isDeepStrictEqual(known.get(keyOf(item)), item))
      .map((item): KubeChange => ({ type: 'put', item })),
  ];
}

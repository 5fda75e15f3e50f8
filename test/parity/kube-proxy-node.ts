import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Daemon } from '../netns/cluster-host.ts';
import { isInGuest } from '../in-guest.ts';
import type { KubeChange, KubeItem } from './api-server.ts';
import { nodeName, nodes } from './clusters.ts';
import { absentOfFence, fenceOf, withoutFence } from './fence.ts';
import { type ProxyConfig, proxyConfig, type ProxySetting } from './settings.ts';
import { type Saved, WiredNode } from './wire.ts';

/** Of the API server of a node. */
export const serverPort = 18_080;
export const kubeconfig = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${serverPort}` } }],
  users: [{ name: 'u', user: {} }],
  contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
  'current-context': 'x',
};

/** The configuration of the program itself: its server, and no delay of writes. */
export function ownConfig(setting: ProxySetting, dir: string): ProxyConfig {
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
    // Without repeated syncs, each of which starts a hundred tools: in the guest they would never end.
    ...withDefaults('ipvs', { minSyncPeriod: '10ms', syncPeriod: '1h' }),
    // A namespace cannot set the limits of the machine.
    ...withDefaults('conntrack', { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' }),
  };
}

/** The real kube-proxy on a node of its own, with an API server of its own. */
export class KubeProxyNode {
  readonly node: WiredNode;
  readonly #daemons: Daemon[];
  readonly #program: readonly string[];
  readonly #socket: string;
  readonly #isIpvs: boolean;
  #cluster: readonly KubeItem[];
  #fence = 0;

  private constructor(node: WiredNode, binary: string, setting: ProxySetting, dir: string, known: readonly KubeItem[]) {
    this.node = node;
    this.#cluster = known;
    const server = join(import.meta.dirname, 'api-server.ts');
    this.#daemons = [node.host.start([process.execPath, server, join(dir, 'objects.json'), String(serverPort)])];
    this.#program = [binary, '--config', join(dir, 'kube-proxy.yaml')];
    this.#socket = join(dir, 'api.sock');
    this.#isIpvs = setting.config?.['mode'] === 'ipvs';
    if (!this.#isIpvs) this.#startProgram();
  }

  /** @param dir an empty directory @param known the Nodes at its start: it looks up its own at once, and continues without one */
  static async start(
    binary: string,
    wire: string,
    setting: ProxySetting,
    dir: string,
    known: readonly KubeItem[] = nodes,
  ): Promise<KubeProxyNode> {
    mkdirSync(dir, { recursive: true });
    const node = await WiredNode.start('kube-proxy', wire, setting.commands);
    writeFileSync(join(dir, 'objects.json'), JSON.stringify(known));
    writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
    writeFileSync(join(dir, 'kube-proxy.yaml'), JSON.stringify(ownConfig(setting, dir)));
    return new KubeProxyNode(node, binary, setting, dir, known);
  }

  #startProgram(): void {
    this.#daemons.unshift(this.node.host.start(this.#program));
  }

  /** Sends new, removed and changed objects to the server. Ends once every rule of the cluster is in the kernel. */
  async put(cluster: readonly KubeItem[]): Promise<void> {
    const end = performance.now() + syncTimeoutMs;
    await this.#send(cluster, end);
    // In mode ipvs the program starts with its first state: a sync without Services starts a hundred tools, too.
    if (this.#isIpvs && this.#fence === 1) this.#startProgram();
    await this.#untilFence(end);
    if (!this.#isIpvs) return;
    // It writes virtual servers first, then sets and rules, which reveal no fence. The next sync begins once this one has ended.
    await this.#send(cluster, end);
    await this.#untilFence(end);
  }

  /** Sends the changes to a state with a new fence. */
  async #send(cluster: readonly KubeItem[], end: number): Promise<void> {
    const wanted = [...cluster, ...fenceOf(++this.#fence)];
    const changes = changesBetween(this.#cluster, wanted);
    this.#cluster = wanted;
    await this.#until('the server takes changes', end, () => post(this.#socket, '/change', JSON.stringify(changes)));
  }

  /** Without the fence. */
  async saved(): Promise<Saved> {
    const { IPv4, IPv6 } = await this.node.saved();
    return { IPv4: withoutFence(IPv4), IPv6: withoutFence(IPv6) };
  }

  /** Ends the program and its server. Its rules stay. */
  async stop(): Promise<void> {
    for (const daemon of this.#daemons) await daemon.stop();
  }

  async close(): Promise<void> {
    await this.stop();
    await this.node.close();
  }

  /** Its informers deliver Services and slices in the order of their changes: the last of each is in the rules once all are. */
  async #untilFence(end: number): Promise<void> {
    const { host } = this.node;
    const tools = this.#isIpvs ? serverTools : saveTools;
    await this.#until('kube-proxy has written all rules', end, async () => {
      const results = await Promise.all(tools.map(async (tool) => ({ tool, ...(await host.exec(tool)) })));
      const failed = results.filter(({ exitCode }) => exitCode !== 0);
      const absent = absentOfFence(this.#fence, results.map(({ stdout }) => stdout).join('\n'));
      if (absent.length === 0) return undefined;
      const failures = failed.map(({ tool, exitCode, stderr }) => `${tool.join(' ')}: exit code ${exitCode} ${stderr}`);
      return [`the rules lack ${absent.join(', ')}`, ...failures].join('\n');
    });
  }

  /** @param look finds what is still absent, in words; undefined: nothing */
  async #until(what: string, end: number, look: () => Promise<string | undefined>): Promise<void> {
    for (;;) {
      const absent = await look();
      if (absent === undefined) return;
      if (performance.now() > end) {
        const title = `Timed out ${syncTimeoutMs / 1000} s after the change, waiting until ${what}`;
        throw new Error(`${title}: ${absent}\n${await this.#log()}`);
      }
      await sleep(pauseMs);
    }
  }

  async #log(): Promise<string> {
    for (const daemon of this.#daemons) await daemon.stop();
    return (await Promise.all(this.#daemons.map(({ ended }) => ended))).map(({ output }) => output).join('\n');
  }
}

/** An emulated machine is slow. */
export const syncTimeoutMs = isInGuest ? 600_000 : 60_000;

/** Between two looks: in the guest their tools would take the processor from kube-proxy. */
const pauseMs = isInGuest ? 3_000 : 50;

/** @returns why it was not accepted */
function post(socketPath: string, path: string, body: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const sending = request({ socketPath, path, method: 'POST' }, (response) => {
      const { statusCode } = response;
      response.resume().on('end', () => resolve(statusCode === 200 ? undefined : `it answered ${statusCode}`));
    });
    sending.on('error', ({ message }) => resolve(message)).end(body);
  });
}

const saveTools: readonly (readonly string[])[] = [
  ['/usr/sbin/iptables-nft-save', '-t', 'nat'],
  ['/usr/sbin/ip6tables-nft-save', '-t', 'nat'],
  ['/usr/sbin/nft', 'list', 'ruleset', 'ip'],
  ['/usr/sbin/nft', 'list', 'ruleset', 'ip6'],
];
const serverTools = [['/usr/sbin/ipvsadm', '-Sn']];

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

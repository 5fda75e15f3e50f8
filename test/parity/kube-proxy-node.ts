import { request } from 'node:http';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Daemon, Host } from '../netns/cluster-host.ts';
import type { KubeChange, KubeItem } from './api-server.ts';
import { nodeName, nodes } from './clusters.ts';
import { type ProxyConfig, proxyConfig, type Setting } from './settings.ts';
import { type Outcome, type Probe, WiredNode } from './wire.ts';

/** What a node loads of both families, as the save tools print it. */
export interface Saved {
  readonly IPv4: string;
  readonly IPv6: string;
}

export async function savedOf(host: Host): Promise<Saved> {
  const [IPv4, IPv6] = await Promise.all(
    ['/usr/sbin/iptables-nft-save', '/usr/sbin/ip6tables-nft-save'].map((tool) => host.run([tool])),
  );
  return { IPv4: IPv4 as string, IPv6: IPv6 as string };
}

/** A node with the rules of some program. */
export interface DataPlane {
  readonly name: string;
  saved(): Promise<Saved>;
  /** The clients of Services with affinity. */
  forgetClients(): Promise<void>;
  forgetConnections(): Promise<void>;
  send(probes: readonly Probe[], quietMs?: number): Promise<readonly Outcome[]>;
  close(): Promise<void>;
}

const port = 18_080;
const kubeconfig = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
  users: [{ name: 'u', user: {} }],
  contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
  'current-context': 'x',
};

/** What only the program itself is told: where its server is, and that it may write at once. */
function ownConfig(setting: Setting, dir: string): ProxyConfig {
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
    // A namespace may not set the limits of the machine.
    ...withDefaults('conntrack', { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' }),
  };
}

/** The real kube-proxy on a node of its own, with an API server of its own. */
export class KubeProxyNode implements DataPlane {
  readonly name = 'kube-proxy';
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
  static async start(binary: string, wire: string, setting: Setting, dir: string): Promise<KubeProxyNode> {
    mkdirSync(dir, { recursive: true });
    const node = await WiredNode.start('kube-proxy', wire, setting.commands);
    // It looks for its Node at once, and goes on without one.
    writeFileSync(join(dir, 'objects.json'), JSON.stringify(nodes));
    writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
    writeFileSync(join(dir, 'kube-proxy.yaml'), JSON.stringify(ownConfig(setting, dir)));
    const server = join(import.meta.dirname, 'api-server.ts');
    const api = node.host.start([process.execPath, server, join(dir, 'objects.json'), String(port)]);
    const proxy = node.host.start([binary, '--config', join(dir, 'kube-proxy.yaml')]);
    return new KubeProxyNode(node, [proxy, api], join(dir, 'api.sock'), setting.config?.['mode'] === 'ipvs');
  }

  /** Tells the server what is new, gone or changed. Ends once every rule of the cluster is in the kernel. */
  async put(cluster: readonly KubeItem[]): Promise<void> {
    const wanted = [...cluster, ...fenceOf(++this.#fence)];
    const changes = changesBetween(this.#cluster, wanted);
    this.#cluster = wanted;
    await this.#until('the server takes changes', () => post(this.#socket, '/change', JSON.stringify(changes)));
    await this.#until('kube-proxy has written all rules', () => this.#isPast(this.#fence));
    if (this.#isIpvs) await this.#untilStill();
  }

  /** Mode ipvs writes virtual servers first, then sets and rules, which do not tell one state from another. */
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

  async saved(): Promise<Saved> {
    const { IPv4, IPv6 } = await savedOf(this.node.host);
    return { IPv4: withoutFence(IPv4), IPv6: withoutFence(IPv6) };
  }

  forgetClients(): Promise<void> {
    return this.node.forgetClients();
  }

  forgetConnections(): Promise<void> {
    return this.node.forgetConnections();
  }

  send(probes: readonly Probe[], quietMs?: number): Promise<readonly Outcome[]> {
    return this.node.send(probes, quietMs);
  }

  async close(): Promise<void> {
    for (const daemon of this.#daemons) await daemon.stop();
    await this.node.close();
  }

  /** Its informers tell it of Services and of slices in the order of their changes: the last of each is in the rules once all are. */
  async #isPast(fence: number): Promise<boolean> {
    const { host } = this.node;
    const saved = await Promise.all(saveTools.map((tool) => host.run(tool).catch(() => '')));
    const [text4, text6] = [`${saved[0]}${saved[2]}${saved[4]}`, `${saved[1]}${saved[3]}${saved[4]}`];
    return (
      isIn(text4, `10.96.1.${fence % 250}`, `10.244.2.${fence % 250}`) &&
      isIn(text6, `fd00:10:96::1:${fence}`, `fd00:10:244:2::1:${fence}`)
    );
  }

  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + patienceMs;
    while (!(await isSo())) {
      if (performance.now() > end) throw new Error(`Not within ${patienceMs} ms: ${what}\n${await this.#said()}`);
      await sleep(50);
    }
  }

  async #said(): Promise<string> {
    for (const daemon of this.#daemons) await daemon.stop();
    return (await Promise.all(this.#daemons.map(({ ended }) => ended))).map(({ output }) => output).join('\n');
  }
}

const isInGuest = process.env['SLUICE_GUEST'] === '1';
/** An emulated machine takes its time. */
export const patienceMs = isInGuest ? 600_000 : 60_000;

/** How long sets and rules stay as they are once kube-proxy is done. */
const stillMs = isInGuest ? 15_000 : 1_000;

/** @returns whether it was taken */
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

const isIn = (text: string, ...words: readonly string[]): boolean =>
  words.every((word) => new RegExp(`${word.replaceAll('.', '\\.')}(?![0-9a-f])`).test(text));

/** A Service and slices that tell one state of a cluster from the one before: see `#isPast`. */
function fenceOf(count: number): readonly KubeItem[] {
  const clusterIPs = [`10.96.1.${count % 250}`, `fd00:10:96::1:${count}`];
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'fence', namespace: 'fence' },
    spec: {
      type: 'ClusterIP',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [{ name: 'p', protocol: 'TCP', port: 9, targetPort: 9 }],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  };
  const slices = [`10.244.2.${count % 250}`, `fd00:10:244:2::1:${count}`].map((address, index) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `fence-${index}`, namespace: 'fence', labels: { 'kubernetes.io/service-name': 'fence' } },
    addressType: index === 0 ? 'IPv4' : 'IPv6',
    ports: [{ name: 'p', protocol: 'TCP', port: 9 }],
    endpoints: [
      {
        addresses: [address],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'node-2',
        zone: 'zone-1',
      },
    ],
  }));
  return [service, ...slices];
}

/** Whether a line of `ipvsadm`, `ipset` or `ip` is of the fence: it alone has port 9. */
export const isOfFence = (line: string): boolean =>
  /[:\]]9(?: |$)|,tcp:9(?:,|$)|^10\.96\.1\.|^fd00:10:96::1:/.test(line);

function withoutFence(saved: string): string {
  const lines = saved.split('\n');
  const chains = lines.flatMap((line) => /^-A (KUBE-(?:SVC|SEP)-\S+) .*"fence\/fence/.exec(line)?.[1] ?? []);
  return lines
    .filter((line) => !line.includes('"fence/fence') && !chains.some((chain) => line.startsWith(`:${chain} `)))
    .join('\n');
}

/** What turns one state of a cluster into another, in the order of the new one: removals first. */
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

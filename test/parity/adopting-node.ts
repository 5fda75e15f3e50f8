import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { AdoptNode } from '../netns/adopt-node.ts';
import { addPods } from '../netns/clients.ts';
import { until } from '../netns/until.ts';
import type { KubeItem } from './api-server.ts';
import { nodeName, nodes } from './clusters.ts';
import { kubeconfig, ownConfig, serverPort, syncTimeoutMs } from './kube-proxy-node.ts';
import { type PlainService, plainService } from './plain-service.ts';
import type { ParityPrograms } from './programs.ts';
import { Renderer } from './sluice-node.ts';
import { steadyService } from './steady-client.ts';

export type SluiceMode = 'iptables' | 'nftables';
/** Of kube-proxy. Mode ipvs needs the emulated guest. */
export type ProxyMode = 'iptables' | 'ipvs' | 'nftables';
export type Store = 'nft' | 'legacy';

/** A Service of the clients of `netns/clients.ts`: pod n has 10.244.0.(n + 1) and fd00:10::n. */
const serviceOf = (
  name: string,
  clusterIPs: readonly [string, string],
  pods: readonly number[],
  port: PlainService['port'] = { name: 'http', port: 80, targetPort: 8080 },
): readonly KubeItem[] =>
  plainService({
    namespace: 'shop',
    name,
    clusterIPs,
    port,
    endpoints: { IPv4: pods.map((n) => `10.244.0.${n + 1}`), IPv6: pods.map((n) => `fd00:10::${n}`) },
    nodeName,
    zone: 'zone-0',
  });

/** The Services of the clients, without nodes. */
export const shopServices: readonly KubeItem[] = [
  ...serviceOf('web', ['10.96.0.11', 'fd00:96::a'], [1, 2]),
  ...serviceOf('cart', ['10.96.0.12', 'fd00:96::b'], [3]),
  ...serviceOf('dns', [steadyService.address, 'fd00:96::c'], [1, 2], {
    name: 'dns',
    port: steadyService.port,
    targetPort: steadyService.targetPort,
    protocol: 'UDP',
  }),
];
const shop: readonly KubeItem[] = [...nodes, ...shopServices];

/** A node whose kube-proxy is the real one, as a static pod of a stand-in for the kubelet, with an API server of its own; and bundles of the same objects. */
export class AdoptingNode {
  readonly node: AdoptNode;
  readonly #programs: ParityPrograms;

  private constructor(node: AdoptNode, programs: ParityPrograms) {
    this.node = node;
    this.#programs = programs;
  }

  /** Ends once kube-proxy has written the rules of all Services. @param store where a kube-proxy in mode iptables writes */
  static async start(programs: ParityPrograms, mode: ProxyMode, store: Store): Promise<AdoptingNode> {
    const node = await AdoptNode.start();
    await addPods(node);
    const adopting = new AdoptingNode(node, programs);
    const dir = node.directory;
    writeFileSync(join(dir, 'objects.json'), JSON.stringify(shop));
    writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
    writeFileSync(join(dir, 'kube-proxy.config'), JSON.stringify(ownConfig({ title: mode, config: { mode } }, dir)));
    writeTools(join(dir, 'tools'), store);
    const server = join(import.meta.dirname, 'api-server.ts');
    node.startProgram([process.execPath, server, join(dir, 'objects.json'), String(serverPort)]);
    await until('the API server listens', async () => existsSync(join(dir, 'api.sock')), syncTimeoutMs);
    await node.startStaticPod(
      `PATH=${dir}/tools:$PATH exec -a kube-proxy ${programs.kubeProxy} --config ${dir}/kube-proxy.config`,
    );
    await until('kube-proxy has written its rules', () => adopting.hasWritten(mode, store), syncTimeoutMs);
    const compare = join(dir, 'compare');
    writeFileSync(compare, `#!/bin/sh\nexec ${process.execPath} ${programPath('sluice')} "$@"\n`, { mode: 0o755 });
    return adopting;
  }

  /** Whether kube-proxy's rules have every endpoint of shop/web and shop/cart, in both families. */
  async hasWritten(mode: ProxyMode, store: Store): Promise<boolean> {
    const saves = [
      [`iptables-${store}-save`, '-t', 'nat'],
      [`ip6tables-${store}-save`, '-t', 'nat'],
    ];
    const commands = {
      iptables: saves,
      // It fails until the kernel has IPVS.
      ipvs: [...saves, ['sh', '-c', 'ipvsadm -Sn || true']],
      nftables: [
        ['nft', 'list', 'ruleset', 'ip'],
        ['nft', 'list', 'ruleset', 'ip6'],
      ],
    } as const;
    const texts = await this.#texts(...commands[mode]);
    const wanted = ['10.244.0.2', '10.244.0.3', '10.244.0.4', 'fd00:10::1', 'fd00:10::2', 'fd00:10::3'];
    return (
      wanted.every((address) => texts.includes(address)) && /KUBE-SEP-|chain service-|-j KUBE-NODE-PORT$/m.test(texts)
    );
  }

  async #texts(...commands: readonly (readonly string[])[]): Promise<string> {
    return (await Promise.all(commands.map((command) => this.node.tool(command)))).join('\n');
  }

  /** Renders the same objects for a mode of Sluice, into the directory that the config names. */
  async render(mode: SluiceMode): Promise<void> {
    const dir = join(this.node.directory, `renderer-${mode}`);
    mkdirSync(dir, { recursive: true });
    const renderer = new Renderer({ title: mode, config: { mode } }, this.#programs.minor, dir);
    await renderer.render(shop);
    const rendered = join(this.node.directory, 'rendered');
    await this.node.tool(['rm', '-rf', rendered]);
    await this.node.tool(['cp', '-a', renderer.bundle, rendered]);
  }

  /** Writes `sluiced.yaml`, with the program that compares. */
  configure(store: Store, more = ''): void {
    this.node.writeConfig(store, `parityProgram: ${this.node.directory}/compare\n${more}`, nodeName);
  }

  close(): Promise<void> {
    return this.node.close();
  }
}

/** A folder for PATH in which `iptables` and its companions are those of one store. */
export function writeTools(folder: string, store: Store): void {
  mkdirSync(folder);
  for (const six of ['', '6'])
    for (const part of ['', '-save', '-restore'])
      symlinkSync(`/usr/sbin/ip${six}tables-${store}${part}`, join(folder, `ip${six}tables${part}`));
}

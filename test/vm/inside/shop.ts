import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { programPath } from '@sluice/testing';
import { writeBundle } from '../../../packages/applier/src/testing/bundle.fixture.ts';
import { edited } from '../../../packages/bundle/src/virtual/bundle.fixture.ts';
import { guestStore } from '../../in-guest.ts';
import { type Cluster, openCluster } from '../../netns/cluster.ts';
import type { Daemon, ExecResult, Host } from '../../netns/cluster-host.ts';

/** A Service in mode ipvs. */
export interface ShopService {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  /** The scheduler and persistence, such as `-s rr -p 3`. */
  readonly attributes: string;
  /** The weight of each real server, by `10.244.1.5:8080`. */
  readonly real: Readonly<Record<string, number>>;
}

/** The pods of the one node, which are its endpoints; each answers HTTP and UDP on 8080 with its name, and byte by byte on 9000. */
export const podAddresses = { a: '10.244.1.5', b: '10.244.1.6', c: '10.244.1.7' } as const;
export type PodName = keyof typeof podAddresses;

/** The node's sysctl.conf, as `sluice render` writes it for current kernels. */
const sysctls = [
  'net.ipv4.ip_forward = 1',
  'net.ipv4.vs.conntrack = 1',
  'net.ipv4.vs.expire_nodest_conn = 1',
  'net.ipv4.vs.expire_quiescent_template = 1',
];

/**
 * A bundle for node-a with only these Services.
 * @param timeouts of TCP, TCP after FIN and UDP, in seconds
 */
export function shopBundle(services: readonly ShopService[], timeouts = '900 120 300'): ReadonlyMap<string, string> {
  const folder = 'profiles/default/services/';
  const files = new Map(edited('base/sysctl.conf', () => `${sysctls.join('\n')}\n`));
  for (const path of files.keys()) if (path.startsWith(folder)) files.delete(path);
  files.set('profiles/default/base/first.ipvs', `--set ${timeouts}\n`);
  for (const service of services) {
    files.set(`${folder}shop/${service.name}.ipset`, entriesOf(service));
    files.set(`${folder}shop/${service.name}.ipvs`, serversOf(service));
  }
  return files;
}

function entriesOf({ name, address, port, protocol, real }: ShopService): string {
  const loops = Object.keys(real).map((endpoint) => {
    const [pod = '', target = ''] = endpoint.split(':');
    return `add KUBE-LOOP-BACK ${pod},${protocol}:${target},${pod}`;
  });
  const lines = [`add KUBE-CLUSTER-IP ${address},${protocol}:${port}`, `add KUBE-IPVS-IPS ${address}`, ...loops];
  return `# shop/${name} ClusterIP\n${lines.join('\n')}\n`;
}

function serversOf({ name, address, port, protocol, attributes, real }: ShopService): string {
  const server = `${protocol === 'tcp' ? '-t' : '-u'} ${address}:${port}`;
  const servers = Object.entries(real).map(([endpoint, weight]) => `-a ${server} -r ${endpoint} -m -w ${weight}`);
  return `# shop/${name} ClusterIP\n${[`-A ${server} ${attributes}`, ...servers].join('\n')}\n`;
}

const sluiced = programPath('sluiced');

/** Answers every byte with its name, as long as the connection is open. */
const talker = (name: string): string =>
  `require('net').createServer((s) => s.on('error', () => {}).on('data', () => s.write('${name}'))).listen(9000, '::')`;

/**
 * One node with three endpoints and a client pod, on which the real `sluiced` runs. The client outside has two addresses.
 * `await using shop = await Shop.open()`.
 */
export class Shop implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'sluiced-shop-'));
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.configure();
  }

  static async open(): Promise<Shop> {
    const names = Object.keys(podAddresses) as PodName[];
    const endpoint = (name: PodName) => ({ name, node: 'node-a', addresses: [podAddresses[name]], ports: both });
    const cluster = await openCluster({
      nodes: [{ name: 'node-a', addresses: ['192.0.2.11'], podCIDRs: ['10.244.1.0/24'] }],
      pods: [...names.map(endpoint), { name: 'client', node: 'node-a', addresses: ['10.244.1.20'], ports: [] }],
      outside: ['198.51.100.7', '198.51.100.8'],
    });
    const shop = new Shop(cluster);
    for (const name of names) shop.host(name).start([process.execPath, '-e', talker(name)]);
    return shop;
  }

  /** The program, for machines besides the node. */
  readonly program = sluiced;

  /** The options that name its config. */
  get config(): readonly string[] {
    return ['--config', join(this.directory, 'sluiced.yaml')];
  }

  get node(): Host {
    return this.host('node-a');
  }

  host(name: string): Host {
    return this.#cluster.host(name);
  }

  /** Writes sluiced.yaml; the caller adds lines to those that every test needs. */
  configure(...lines: readonly string[]): void {
    const config = [
      'apiVersion: sluice.dev/v1alpha1',
      'kind: SluicedConfig',
      'node: node-a',
      `backend: ${guestStore}`,
      'signatures: {policy: none}',
    ];
    const own = [`bundle: ${this.directory}/rendered`, `state: ${this.directory}/state`, 'scanIntervalSeconds: 0.5'];
    // Probes that pass are believed at once.
    const text = [...config, ...own, 'probation: { seconds: 0 }', ...lines].join('\n');
    writeFileSync(join(this.directory, 'sluiced.yaml'), `${text}\n`);
  }

  /** Writes a bundle where `sluiced run` watches. */
  put(files: ReadonlyMap<string, string>): void {
    rmSync(join(this.directory, 'rendered'), { recursive: true, force: true });
    writeBundle(join(this.directory, 'rendered'), files);
  }

  sluiced(...args: readonly string[]): Promise<ExecResult> {
    return this.node.exec(this.#command(args), { timeoutMs: 240_000 });
  }

  /** `sluiced apply` of these files. */
  apply(files: ReadonlyMap<string, string>): Promise<ExecResult> {
    this.put(files);
    return this.sluiced('apply', join(this.directory, 'rendered'));
  }

  /** `sluiced run`; it ends with the cluster at the latest. */
  run(): Daemon {
    return this.node.start(this.#command(['run']));
  }

  #command(args: readonly string[]): readonly string[] {
    return [process.execPath, sluiced, ...args, ...this.config];
  }

  /** The virtual and real servers of the node, as `ipvsadm -S -n` prints them. */
  async servers(): Promise<readonly string[]> {
    const text = await this.node.run(['/usr/sbin/ipvsadm', '-S', '-n']);
    return text.split('\n').filter((line) => line !== '');
  }

  /** Opens connections one after the other. @returns the names that answered, in order, or the error */
  async ask(service: ShopService, count: number, from = 'client'): Promise<readonly string[]> {
    const { address: to, port, protocol } = service;
    const answers: string[] = [];
    for (let n = 0; n < count; n++) {
      const reply = await this.host(from).connect({ protocol, to, port, timeoutMs: 4_000 });
      answers.push(reply.kind === 'answer' ? reply.answer : reply.kind);
    }
    return answers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cluster[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const both = ['8080/tcp', '8080/udp'];

/** Polls until `look` gives a value. Throws after 150 seconds, or as many as are given: emulation is slow. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>, seconds = 150): Promise<T> {
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    const seen = await look();
    if (seen) return seen;
    await sleep(200);
  }
  throw new Error(`timed out after ${seconds} s, waiting until ${what}`);
}

/** The count of each name. */
export function tally(answers: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const answer of answers.toSorted()) counts[answer] = (counts[answer] ?? 0) + 1;
  return counts;
}

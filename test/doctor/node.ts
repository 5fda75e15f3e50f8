import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Diagnosis } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { type Cluster, openCluster } from '../netns/cluster.ts';
import type { Daemon, ExecResult, Host } from '../netns/cluster-host.ts';
import type { Reply } from '../netns/agent.ts';
import { addresses, config, manifests, type ServiceOptions } from './manifests.ts';
import type { Drawn } from './plan.ts';

/** `sluiced doctor -o json`. */
export interface DoctorResult {
  readonly exitCode: number;
  readonly diagnosis: Diagnosis;
  readonly output: string;
}

type PodName = 'a1' | 'b1' | 'c1';

/**
 * A node with a Service, in a cluster of two nodes: `node-a` is examined, `node-b` only forwards. Pods a1 and c1 are on node-a, b1 on
 * node-b; all are namespaces with processes of their own.
 */
export class DoctorNode implements AsyncDisposable {
  readonly drawn: Drawn;
  readonly options: ServiceOptions;
  readonly directory = mkdtempSync(`${tmpdir()}/sld-`);
  readonly cluster: Cluster;
  #daemon: Daemon | undefined;

  private constructor(drawn: Drawn, options: ServiceOptions, cluster: Cluster) {
    this.drawn = drawn;
    this.options = options;
    this.cluster = cluster;
  }

  /** Builds the cluster and the bundle. The Service is not applied yet. */
  static async make(drawn: Drawn, options: ServiceOptions): Promise<DoctorNode> {
    const ports = [`${drawn.targetPort}/${(options.protocol ?? 'TCP').toLowerCase()}`];
    const pod = (name: PodName, node: string) => ({ name, node, addresses: Object.values(addresses[name]), ports });
    const spec = {
      nodes: [
        {
          name: 'node-a',
          addresses: Object.values(addresses['node-a']),
          podCIDRs: ['10.244.1.0/24', 'fd00:244:1::/64'],
        },
        {
          name: 'node-b',
          addresses: Object.values(addresses['node-b']),
          podCIDRs: ['10.244.2.0/24', 'fd00:244:2::/64'],
        },
      ],
      pods: [pod('a1', 'node-a'), pod('c1', 'node-a'), pod('b1', 'node-b')],
      outside: Object.values(addresses.outside),
    };
    const node = new DoctorNode(drawn, options, await openCluster(spec));
    writeFileSync(
      node.configFile,
      `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\nbundle: ${node.directory}/rendered\nstate: ${node.directory}/state\nbackend: ${drawn.plane.backend}\nlayout: ${drawn.plane.layout}\nsignatures: {policy: none}\nprobation: {seconds: 0}\nscanIntervalSeconds: 1\nlisten: 127.0.0.1:10276\n`,
    );
    await node.render(options);
    return node;
  }

  get configFile(): string {
    return `${this.directory}/sluiced.yaml`;
  }

  /** The examined node. */
  get host(): Host {
    return this.cluster.host('node-a');
  }

  get service(): string {
    return `${this.drawn.namespace}/${this.drawn.name}`;
  }

  /** The address of a machine in the family of the row. */
  address(machine: keyof typeof addresses): string {
    return addresses[machine][this.drawn.family];
  }

  /** `iptables-nft` or another variant, of the row's family and store. */
  get iptables(): string {
    return `${this.drawn.family === 'ipv4' ? 'iptables' : 'ip6tables'}-${this.drawn.plane.backend}`;
  }

  /** Writes the bundle directory. */
  async render(options: ServiceOptions): Promise<void> {
    const input = `${this.directory}/in`;
    mkdirSync(input, { recursive: true });
    writeFileSync(`${input}/objects.yaml`, manifests(this.drawn, options));
    writeFileSync(`${this.directory}/sluice.yaml`, config(this.drawn));
    const { exitCode, stderr } = await execa(
      process.execPath,
      [
        programPath('sluice'),
        'render',
        '-f',
        input,
        '-c',
        `${this.directory}/sluice.yaml`,
        '-o',
        `${this.directory}/rendered`,
        ...(options.isRivalled ? ['--quarantine'] : []),
      ],
      { cwd: this.directory, reject: false },
    );
    if (exitCode !== 0) throw new Error(`Cannot render: ${stderr}`);
  }

  async sluiced(...args: readonly string[]): Promise<ExecResult> {
    return this.host.exec([process.execPath, programPath('sluiced'), ...args, '-c', this.configFile], {
      timeoutMs: 60_000,
    });
  }

  /** Puts the bundle into the kernel. */
  async apply(): Promise<void> {
    const { exitCode, stdout, stderr } = await this.sluiced('apply', `${this.directory}/rendered`);
    if (exitCode !== 0) throw new Error(`Cannot apply: ${stdout}${stderr}`);
  }

  /** Starts `sluiced run`. */
  startDaemon(): void {
    this.#daemon = this.host.start([process.execPath, programPath('sluiced'), 'run', '-c', this.configFile]);
  }

  /** Runs a command on the examined node; throws when it fails. */
  async sh(script: string): Promise<string> {
    return this.host.run(['sh', '-ec', script], { timeoutMs: 30_000 });
  }

  /** One connection to the Service's cluster IP. */
  async connect(
    from: PodName | 'node-a' | 'outside' = 'c1',
    to = this.drawn.clusterIP,
    port = this.drawn.port,
  ): Promise<Reply> {
    const protocol = this.options.protocol === 'UDP' ? 'udp' : 'tcp';
    return this.cluster.host(from).connect({ to, port, protocol, timeoutMs: 700 });
  }

  async doctor(...args: readonly string[]): Promise<DoctorResult> {
    const { exitCode, stdout, stderr } = await this.sluiced('doctor', ...args, '-o', 'json');
    try {
      return { exitCode, diagnosis: JSON.parse(stdout) as Diagnosis, output: `${stdout}${stderr}` };
    } catch {
      throw new Error(`Cannot read the diagnosis: exit code ${exitCode}\n${stdout}${stderr}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.stop();
    await this.cluster[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

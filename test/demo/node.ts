import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { Daemon, Host } from '../netns/cluster-host.ts';

export interface ProbeSpec {
  readonly name: string;
  readonly http: string;
}

/** The fields of sluiced's status that the demo reads. */
export interface NodeStatus {
  /** The active version, null before the first bundle. */
  readonly version: string | null;
  readonly backend: 'nft' | 'legacy' | null;
  /** The version of a change in progress. */
  readonly open: string | null;
  /** Quarantined versions, with the reason. */
  readonly quarantined: Readonly<Record<string, string>>;
}

interface NodeOptions {
  /** The interval of full scans, besides those after events. */
  readonly scanIntervalSeconds?: number;
  /** The program. */
  readonly sluiced?: string;
}

/** A node of the demo with its own sluiced. */
export class DemoNode {
  readonly host: Host;
  readonly #config: string;
  readonly #sluiced: string;
  #daemon: Daemon | undefined;

  /**
   * @param dir a scratch directory for the node's config and state
   * @param bundle the directory that sluiced watches
   */
  constructor(host: Host, dir: string, bundle: string, probe: ProbeSpec, options: NodeOptions = {}) {
    this.host = host;
    this.#sluiced = options.sluiced ?? join(import.meta.dirname, '../../bin/sluiced');
    const own = join(dir, host.name);
    mkdirSync(own, { recursive: true });
    this.#config = join(own, 'sluiced.yaml');
    const config = {
      apiVersion: 'sluice.dev/v1alpha1',
      kind: 'SluicedConfig',
      node: host.name,
      signatures: { policy: 'none' },
      bundle,
      state: join(own, 'state'),
      scanIntervalSeconds: options.scanIntervalSeconds ?? 1,
      probes: [{ ...probe, attempts: 3, intervalSeconds: 0.5, timeoutSeconds: 1 }],
    };
    writeFileSync(this.#config, stringify(config));
  }

  /** `sluiced run`, until `stop`. */
  start(): void {
    this.#daemon = this.host.start([this.#sluiced, 'run', '-c', this.#config]);
  }

  /** Ends sluiced; its rules stay, as on a real node. @returns its output */
  async stop(): Promise<string> {
    await this.#daemon?.stop();
    return (await this.#daemon?.ended)?.output ?? '';
  }

  /** `sluiced status -o json`. */
  async status(): Promise<NodeStatus> {
    const { stdout } = await this.host.exec([this.#sluiced, 'status', '-o', 'json', '-c', this.#config]);
    return JSON.parse(stdout) as NodeStatus;
  }

  /** The nat rules in the kernel, without the counters and the clock of iptables-save. */
  async rules(): Promise<string> {
    const { backend } = await this.status();
    const saved = await this.host.run([`iptables-${backend ?? 'nft'}-save`, '-t', 'nat']);
    const lines = saved.split('\n').filter((line) => !line.startsWith('#'));
    return lines.map((line) => line.replace(/\[\d+:\d+\]/, '[0:0]')).join('\n');
  }

  /** The output of another command of sluiced, such as `status`, whatever its exit code. */
  async ask(...command: readonly string[]): Promise<string> {
    const { stdout, stderr } = await this.host.exec([this.#sluiced, ...command, '-c', this.#config]);
    return `${stdout}${stderr}`;
  }
}

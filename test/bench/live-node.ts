import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Layered } from '../../packages/netfilter/src/layered.ts';
import { peek } from '../../packages/applier/src/state/peek.ts';
import { keep } from '../../packages/renderer/src/cluster/keep.ts';
import { listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { LiveTree } from '../../packages/renderer/src/emit/live-tree.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { LiveRender } from '../../packages/renderer/src/render/incremental/live-render.ts';
import type { JsonObject, KubeObject } from '../../packages/renderer/src/render/model/kube.ts';
import { allocator } from './allocator.ts';
import { clusterList } from './data.ts';

const kinds = Object.values(listedKinds);

function decoded(text: string): KubeObject {
  const raw = JSON.parse(text) as JsonObject;
  const kind = kinds.find((one) => one.kind === raw['kind'])!;
  const origin = { place: () => ({ file: '', line: 1, column: 1 }) };
  return { kind: kind.kind, apiVersion: kind.apiVersion, value: keep(kind, raw), origin };
}

/** Resident memory in megabytes. */
export interface Resident {
  readonly all: number;
  readonly own: number;
}

/** `sluiced run` in a network namespace of its own, beside others of its kind, and the cluster that it serves. */
export class LiveNode {
  readonly #directory: string;
  readonly #raw: readonly string[];
  readonly #slices: readonly number[];
  readonly #tree: LiveTree;
  readonly #live: LiveRender;
  /** By their places in the list. */
  #objects: Layered<KubeObject>;
  #daemon: ChildProcess | undefined;

  /** @param profile fields of the profile @param config lines of sluiced.yaml */
  constructor(directory: string, services: number, profile: object, config: readonly string[]) {
    this.#directory = directory;
    mkdirSync(join(directory, 'state'), { recursive: true, mode: 0o700 });
    const profiles = [{ name: 'default', clusterCIDR: ['10.128.0.0/9'], conntrack: { maxPerCore: 0 }, ...profile }];
    const text = JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', complete: true, profiles });
    this.#live = new LiveRender(readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }).config);
    this.#tree = new LiveTree(join(directory, 'rendered'));
    this.#raw = clusterList({ services, endpointsPerService: 5, nodes: 1 }).items.map((item) => JSON.stringify(item));
    const objects = this.#raw.map(decoded);
    this.#objects = Layered.of(new Map(objects.map((one, at) => [String(at), one])));
    this.#slices = objects.flatMap(({ kind }, at) => (kind === 'EndpointSlice' ? [at] : []));
    const lines = [
      'apiVersion: sluice.dev/v1alpha1',
      'kind: SluicedConfig',
      'node: node-0000',
      'signatures: { policy: none }',
      'probation: { seconds: 0 }',
      `bundle: ${directory}/rendered`,
      `state: ${directory}/state`,
      ...config,
    ];
    writeFileSync(join(directory, 'sluiced.yaml'), `${lines.join('\n')}\n`);
  }

  /** Starts the daemon, and waits until it has put the cluster into its kernel. */
  async start(node: string, program: string): Promise<void> {
    this.#publish();
    const command = ['ip link set lo up', 'mount -t tmpfs tmpfs /run', 'exec "$@"'].join(' && ');
    const args = [program, 'run', '-c', join(this.#directory, 'sluiced.yaml')];
    this.#daemon = spawn('/usr/bin/unshare', ['-n', '-m', 'sh', '-c', command, 'sh', node, ...args], {
      stdio: 'ignore',
      env: { ...process.env, ...allocator },
    });
    await this.#until((version) => version !== undefined, 300);
  }

  /** Gives one endpoint of one more Service another address. @returns seconds until the journal has it */
  async change(round: number): Promise<number> {
    const before = this.#version;
    const at = this.#slices[(round * 37) % this.#slices.length]!;
    const text = this.#raw[at]!.replace(/"addresses":\["[^"]+"\]/, `"addresses":["10.244.250.${round + 1}"]`);
    this.#objects = this.#objects.with([[String(at), decoded(text)]]);
    const started = performance.now();
    this.#publish();
    await this.#until((version) => version !== before, 60);
    return (performance.now() - started) / 1000;
  }

  /** Seconds of a processor of the daemon and its tools. */
  get processorSeconds(): number {
    const fields = readFileSync(`/proc/${this.#pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
  }

  get resident(): Resident {
    const text = readFileSync(`/proc/${this.#pid}/status`, 'utf8');
    const megabytes = (key: string): number => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(text)?.[1] ?? 0) / 1024;
    return { all: megabytes('VmRSS'), own: megabytes('RssAnon') };
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (!daemon || daemon.exitCode !== null) return;
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill('SIGTERM');
    await ended;
  }

  #publish(): void {
    const { files, errors } = this.#live.render(this.#objects, (path) => this.#tree.text(path));
    if (errors.length > 0) throw new Error(JSON.stringify(errors[0]));
    this.#tree.publish(files);
  }

  get #pid(): number {
    return this.#daemon?.pid ?? 0;
  }

  get #version(): string | undefined {
    return peek(join(this.#directory, 'state'))?.current?.version;
  }

  async #until(is: (version: string | undefined) => boolean, seconds: number): Promise<void> {
    for (const end = performance.now() + seconds * 1000; performance.now() < end; await sleep(5)) {
      if (is(this.#version)) return;
      if (this.#daemon?.exitCode !== null) throw new Error('sluiced has ended');
    }
    throw new Error(`sluiced did not confirm the bundle in ${seconds} s`);
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../netns/until.ts';
import type { RealCluster } from '../cluster.ts';
import { serviceOf, sliceOf } from '../inside/api.ts';
import { killAndStart } from './restarts.ts';
import { rolledOut, untilAnswered, type Web } from './web.ts';

interface ActParts {
  /** A Deployment that is rolled and scaled. */
  readonly web: Web;
  /** A Deployment of two pods that stay. */
  readonly steady: Web;
  readonly random: () => number;
}

/** What may befall a cluster, one thing after the other, chosen by a generator of random numbers. */
export class Acts {
  /** The address of a Service whose one endpoint changes. */
  readonly switched: string;
  /** The pods of which that Service has one. */
  readonly pods: readonly string[];
  readonly #addresses: readonly string[];
  readonly #cluster: RealCluster;
  readonly #parts: ActParts;
  /** Services that were made and not removed yet. */
  #made: readonly Web[] = [];
  #removed: readonly Web[] = [];
  #count = 0;
  #replicas = 3;
  /** Which pod the Service has. */
  #current = 0;

  private constructor(
    cluster: RealCluster,
    parts: ActParts,
    switched: string,
    pods: readonly (readonly [name: string, address: string])[],
  ) {
    this.#cluster = cluster;
    this.#parts = parts;
    this.switched = switched;
    this.pods = pods.map(([name]) => name);
    this.#addresses = pods.map(([, address]) => address);
  }

  /** Makes the Service whose endpoint changes, and waits until it answers on each node. */
  static async start(cluster: RealCluster, parts: ActParts): Promise<Acts> {
    const { kubectl } = cluster.plane;
    const path = '{range .items[*]}{.metadata.name}={.status.podIP} {end}';
    const listed = await kubectl(['get', 'pods', '-l', `app=${parts.steady.name}`, '-o', `jsonpath=${path}`]);
    const pods = listed
      .trim()
      .split(' ')
      .map((text) => text.split('=') as [name: string, address: string]);
    await kubectl(['apply', '-f', '-'], documents(serviceOf('switched'), sliceOf('switched', pods[0]?.[1] ?? '')));
    const address = await kubectl(['get', 'service', 'switched', '-o', 'jsonpath={.spec.clusterIP}']);
    const acts = new Acts(cluster, parts, address, pods);
    await acts.healed();
    return acts;
  }

  /** @returns what was done */
  async next(): Promise<string> {
    const acts = [
      () => this.#kill(),
      () => this.#switch(),
      () => this.#flap(),
      () => this.#delete(),
      () => this.#scale(),
      () => this.#roll(),
      () => this.#make(),
      () => this.#remove(),
    ] as const;
    return this.#oneOf(acts)();
  }

  /** Waits until each node serves what the API has. @returns milliseconds. @throws Error after a minute */
  async healed(): Promise<number> {
    const startMs = performance.now();
    const { steady, web } = this.#parts;
    const current = { name: this.pods[this.#current] ?? '', address: this.switched };
    for (const one of [web, steady, current, ...this.#made]) await untilAnswered(this.#cluster, one);
    for (const { name, address } of this.#removed) await this.#untilRefused(name, address);
    this.#removed = [];
    return Math.round(performance.now() - startMs);
  }

  async #untilRefused(name: string, address: string): Promise<void> {
    const asked = ['curl', '-s', '-o', '/dev/null', '--max-time', '2', `http://${address}/`];
    const isRefused = async (): Promise<boolean> => {
      const answers = [...this.#cluster.nodes.values()].map((host) => host.exec(asked));
      return (await Promise.all(answers)).every(({ exitCode }) => exitCode !== 0);
    };
    await until(`${name} answers on no node`, isRefused, 60_000);
  }

  #oneOf<T>(all: readonly T[]): T {
    return all[Math.floor(this.#parts.random() * all.length)] as T;
  }

  #kubectl(...args: readonly string[]): Promise<string> {
    return this.#cluster.plane.kubectl(args);
  }

  async #killOne(names: readonly string[]): Promise<string> {
    const name = this.#oneOf(names);
    await killAndStart(this.#cluster, name, Math.floor(this.#parts.random() * 3_000));
    return `killed ${name}`;
  }

  async #kill(): Promise<string> {
    return this.#killOne([...this.#cluster.daemons.keys()].toSorted());
  }

  /** The endpoint changes while a program of Sluice is killed. */
  async #switch(): Promise<string> {
    this.#current = 1 - this.#current;
    const own = [...this.#cluster.daemons.keys()].filter((name) => /^(?:sluiced|watch) /.test(name)).toSorted();
    const slice = documents(sliceOf('switched', this.#addresses[this.#current] ?? ''));
    const delayMs = this.#parts.random() * 1_500;
    const [killed] = await Promise.all([
      sleep(delayMs).then(() => this.#killOne(own)),
      this.#cluster.plane.kubectl(['replace', '-f', '-'], slice),
    ]);
    return `changed an endpoint, and ${killed}`;
  }

  /** The third node alone: connections of clients need the links of the others. */
  async #flap(): Promise<string> {
    const { control } = this.#cluster;
    const times = 1 + Math.floor(this.#parts.random() * 3);
    for (let flap = 0; flap < times; flap++) {
      await control.run(['ip', 'link', 'set', 'node-3', 'down']);
      await sleep(this.#parts.random() * 3_000);
      await control.run(['ip', 'link', 'set', 'node-3', 'up']);
      await sleep(500);
    }
    return `took the link of node-3 down ${times} times`;
  }

  async #delete(): Promise<string> {
    const list = await this.#kubectl('get', 'pods', '-l', `app=${this.#parts.web.name}`, '-o', 'name');
    const pod = this.#oneOf(list.split('\n').filter((name) => name !== ''));
    await this.#kubectl('delete', pod, '--wait=false');
    await rolledOut(this.#cluster.plane.kubectl, this.#parts.web.name, this.#replicas);
    return `deleted ${pod}`;
  }

  async #scale(): Promise<string> {
    this.#replicas = 2 + Math.floor(this.#parts.random() * 4);
    const { name } = this.#parts.web;
    await this.#kubectl('scale', `deployment/${name}`, `--replicas=${this.#replicas}`);
    await rolledOut(this.#cluster.plane.kubectl, name, this.#replicas);
    return `scaled to ${this.#replicas}`;
  }

  async #roll(): Promise<string> {
    const { name } = this.#parts.web;
    await this.#kubectl('rollout', 'restart', `deployment/${name}`);
    await rolledOut(this.#cluster.plane.kubectl, name, this.#replicas);
    return `rolled ${name}`;
  }

  async #make(): Promise<string> {
    const { web } = this.#parts;
    const name = `${web.name}-${++this.#count}`;
    await this.#kubectl('expose', `deployment/${web.name}`, `--name=${name}`, '--port=80', '--target-port=8080');
    const address = await this.#kubectl('get', 'service', name, '-o', 'jsonpath={.spec.clusterIP}');
    this.#made = [...this.#made, { name: web.name, address }];
    return `made ${name}`;
  }

  async #remove(): Promise<string> {
    const [oldest, ...others] = this.#made;
    if (oldest === undefined) return this.#make();
    const name = `${this.#parts.web.name}-${this.#count - others.length}`;
    await this.#kubectl('delete', 'service', name);
    [this.#made, this.#removed] = [others, [oldest]];
    return `removed ${name}`;
  }
}

const documents = (...objects: readonly unknown[]): string =>
  objects.map((object) => JSON.stringify(object)).join('\n---\n');

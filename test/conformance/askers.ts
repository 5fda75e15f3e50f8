import { join } from 'node:path';
import { loadavg } from 'node:os';
import { until } from '../netns/until.ts';
import { places } from './addresses.ts';
import type { RealCluster } from './cluster.ts';
import { askerPort, type ByNode } from './inside/nodes.ts';
import type { Web } from './operations/web.ts';

/** What a program that asks all nodes gets as its second argument, in JSON; the first is the kubeconfig. */
export interface Asking {
  /** Addresses of the nodes. */
  readonly nodes: ByNode<string>;
  /** Two pods that stay, each with its name and address. */
  readonly pods: readonly (readonly [name: string, address: string])[];
  /** A Deployment that is scaled. */
  readonly scaled?: string;
  /** Services more, which do not change. */
  readonly services?: number;
}

/**
 * Starts on each node what says when a Service answers it, then a program on the machine of the API server that makes changes and asks.
 * @param script in `inside`. @param steady a Deployment of at least two pods that stay
 * @returns what it prints, with the load of the machine at its end
 */
export async function askAll<T>(
  { plane, control, nodes }: RealCluster,
  script: string,
  steady: Web,
  more: Pick<Asking, 'scaled' | 'services'> = {},
): Promise<T & { readonly load: number }> {
  const inside = join(import.meta.dirname, 'inside');
  const addresses = Object.fromEntries(places.map(({ name, addresses: [v4] }) => [name, v4]));
  for (const [name, host] of nodes) {
    const address = addresses[name] ?? '';
    host.start([process.execPath, join(inside, 'asker.ts'), address]);
    const url = `http://${address}:${askerPort}/`;
    await until(`${name} can be asked`, async () => (await host.exec(['curl', '-sf', url])).exitCode === 0);
  }
  const path = '{range .items[*]}{.metadata.name}={.status.podIP} {end}';
  const listed = await plane.kubectl(['get', 'pods', '-l', `app=${steady.name}`, '-o', `jsonpath=${path}`]);
  const pods = listed.trim().split(' ').slice(0, 2);
  const asking: Asking = {
    nodes: addresses,
    pods: pods.map((text) => text.split('=') as [name: string, address: string]),
    ...more,
  };
  const argv = [process.execPath, join(inside, script), plane.kubeconfig, JSON.stringify(asking)];
  const printed = await control.run(argv, { timeoutMs: 600_000 });
  return { ...(JSON.parse(printed) as T), load: Math.round(loadavg()[0] ?? 0) };
}

/** The value that this share of all is at most. */
export const shareOf = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? Infinity;

/** Median, 99 % and most, in the unit of the values. */
export const spreadOf = (values: readonly number[] = []): readonly number[] =>
  [0.5, 0.99, 1].map((share) => shareOf(values, share));

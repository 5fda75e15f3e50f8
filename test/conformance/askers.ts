import { join } from 'node:path';
import { loadavg } from 'node:os';
import type { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { places } from './addresses.ts';
import type { RealCluster } from './cluster.ts';
import { askerPort, type ByNode, type Used } from './inside/nodes.ts';
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

const addresses: ByNode<string> = Object.fromEntries(places.map(({ name, addresses: [v4] }) => [name, v4]));

/**
 * Starts on each node what says when a Service answers it.
 * @returns asks for what the programs that serve Services use on each node, by the name of the program
 */
export async function startAskers({
  nodes,
}: Pick<RealCluster, 'nodes'>): Promise<() => Promise<ByNode<Readonly<Record<string, Used>>>>> {
  const ask = (name: string, host: Host) => host.exec(['curl', '-sf', `http://${addresses[name]}:${askerPort}/`]);
  for (const [name, host] of nodes) {
    host.start([process.execPath, join(import.meta.dirname, 'inside/asker.ts'), addresses[name] ?? '']);
    await until(`${name} can be asked`, async () => (await ask(name, host)).exitCode === 0);
  }
  const usedOn = async ([name, host]: readonly [string, Host]) =>
    [name, JSON.parse((await ask(name, host)).stdout) as Readonly<Record<string, Used>>] as const;
  return async () => Object.fromEntries(await Promise.all([...nodes].map(usedOn)));
}

/**
 * Starts a program on the machine of the API server that makes changes and asks the nodes.
 * @param script in `inside`. @param steady a Deployment of at least two pods that stay
 * @returns what it prints, with the load of the machine at its end
 */
export async function askAll<T>(
  { plane, control, nodes }: RealCluster,
  script: string,
  steady: Web,
  more: Pick<Asking, 'scaled' | 'services'> = {},
): Promise<T & { readonly load: number }> {
  await startAskers({ nodes });
  const path = '{range .items[*]}{.metadata.name}={.status.podIP} {end}';
  const listed = await plane.kubectl(['get', 'pods', '-l', `app=${steady.name}`, '-o', `jsonpath=${path}`]);
  const pods = listed.trim().split(' ').slice(0, 2);
  const asking: Asking = {
    nodes: addresses,
    pods: pods.map((text) => text.split('=') as [name: string, address: string]),
    ...more,
  };
  const program = join(import.meta.dirname, 'inside', script);
  const argv = [process.execPath, program, plane.kubeconfig, JSON.stringify(asking)];
  const printed = await control.run(argv, { timeoutMs: 600_000 });
  return { ...(JSON.parse(printed) as T), load: Math.round(loadavg()[0] ?? 0) };
}

/** The value that this share of all is at most. */
export const shareOf = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? Infinity;

/** Median, 99 % and most, in the unit of the values. */
export const spreadOf = (values: readonly number[] = []): readonly number[] =>
  [0.5, 0.99, 1].map((share) => shareOf(values, share));

import type { Generation } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';
import type { ProbeResult, Probes } from '../ports/probes.ts';
import type { ReconcilerOptions } from '../apply/reconcile/reconciler.ts';
import { cartBundle, pod, servedBy } from './nftables.fixture.ts';
import { type Scene, steppingClock } from './scene.fixture.ts';

/** For tests only: releases of a few Services in mode nftables, each with a probe that asks what packets to it meet. */

/** Services by name, each with an address of its own. */
export const addresses = { cart: '10.96.0.10', docs: '10.96.0.77', web: '10.96.0.78' } as const;
export type ServiceName = keyof typeof addresses;
export const serviceNames = Object.keys(addresses) as readonly ServiceName[];
export const keyOf = (name: ServiceName): string => `${addresses[name]} . tcp . 80`;

/** Lines of a Service's file. @param more further lines, such as those of another frontend */
export function serviceText(address: string, pods: readonly number[], more: readonly string[] = []): string {
  return [
    `add element inet sluice cluster4 { ${address} }`,
    `add element inet sluice svc4 { ${address} . tcp . 80 : goto n\${count} }`,
    `add element inet sluice none4 { ${address} . tcp . 80 : goto refuse }`,
    ...pods.map((n) => `add element inet sluice tcp4 { ${address} . 80 . \${slot} : ${pod(n)} }`),
    ...more,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

/** A bundle in which these Services have these pods. */
export function shopBundle(
  pods: Readonly<Partial<Record<ServiceName, readonly number[]>>>,
): ReadonlyMap<string, string> {
  const others = serviceNames.filter((name) => name !== 'cart' && pods[name] !== undefined);
  const texts = others.map((name) => [`shop/${name}`, serviceText(addresses[name], pods[name] ?? [])] as const);
  return cartBundle(pods.cart ?? [], Object.fromEntries(texts));
}

/**
 * Probes of Services: each passes while no pod from 90 on serves its Service, and some pod does.
 * @param more probes besides these, each with its answer
 */
export function serviceProbes(
  node: Scene,
  names: readonly ServiceName[] = serviceNames,
  more: readonly { readonly name: string; readonly service?: string; readonly isHealthy: () => boolean }[] = [],
): Probes {
  const once = async (): Promise<readonly ProbeResult[]> => {
    const observed = await node.kernel.nft.observe();
    const ofServices = names.map((name) => {
      const served = observed ? servedBy(observed, keyOf(name)) : [];
      const isBad = served.some((one) => /^10\.244\.1\.9\d /.test(one));
      return { name, healthy: served.length > 0 && !isBad, seen: isBad ? 'status 500' : 'status 200' };
    });
    return [...ofServices, ...more.map(({ name, isHealthy }) => ({ name, healthy: isHealthy(), seen: 'an answer' }))];
  };
  return {
    policies: [
      ...names.map((name) => ({ name, service: `shop/${name}`, failures: 1, window: 1 })),
      ...more.map(({ name, service }) => ({ name, service, failures: 1, window: 1 })),
    ],
    intervalMs: 1000,
    once,
    untilVerdict: once,
  };
}

export const perService: Partial<ReconcilerOptions> = {
  probation: { seconds: 3, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [], perService: true },
};

/** A process of the node with these probes. */
export const startWith = (
  node: Scene,
  probes = serviceProbes(node),
  ports: Partial<Ports> = {},
  options = perService,
): ReturnType<Scene['start']> => node.start(options, { clock: steppingClock(), probes, ...ports });

/** What packets to each Service meet: its pods by number, sorted. */
export async function servedPods(node: Scene): Promise<Readonly<Record<string, string>>> {
  const observed = await node.kernel.nft.observe();
  if (!observed) return {};
  const pods = (name: ServiceName): string =>
    servedBy(observed, keyOf(name))
      .map((one) => /^10\.244\.1\.(\d+) /.exec(one)?.[1] ?? one)
      .toSorted()
      .join(' ');
  return Object.fromEntries(serviceNames.map((name) => [name, pods(name)]));
}

/** A generation in a few words. */
export const told = (generation: Generation | undefined): string =>
  `${generation?.number}.${generation?.revision}${generation?.partial ? ` without ${generation.partial.services.join()}` : ''}`;

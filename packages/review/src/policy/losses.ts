import { compareText } from '@sluice/netfilter';
import type { EndpointFacts } from '../facts/facts.ts';
import { eachService, type PolicyContext } from './context.ts';
import type { Violation } from './finding.ts';

/** Service ports that are unavailable when a node or a zone fails. */
export interface PlaceLoss {
  readonly kind: 'node' | 'zone';
  readonly name: string;
  /** Ports that have all of their endpoints there, `shop/web:http 80/TCP`, in byte order. */
  readonly ports: readonly string[];
}

/** The losses by node and zone; nodes before zones, the largest losses first. */
export function lossesOf(context: PolicyContext): readonly PlaceLoss[] {
  return (['node', 'zone'] as const).flatMap((kind) => {
    if (count(context, kind) < 2) return [];
    const lost = new Map<string, Set<string>>();
    for (const { facts } of [...context.services.values()].flat()) {
      for (const port of facts.ports) {
        const name = onlyPlace(port.endpoints, kind);
        if (name !== undefined) lost.set(name, (lost.get(name) ?? new Set()).add(port.key));
      }
    }
    return [...lost]
      .map(([name, ports]): PlaceLoss => ({ kind, name, ports: [...ports].toSorted(compareText) }))
      .toSorted((a, b) => b.ports.length - a.ports.length || compareText(a.name, b.name));
  });
}

/** SINGLE_NODE and SINGLE_ZONE, unless the cluster has only one node or zone. */
export function singlePlaces(context: PolicyContext): readonly Violation[] {
  const kinds = severalKinds(context);
  return eachService(context, ({ facts }) =>
    kinds.flatMap((kind) => {
      const ports = facts.ports.flatMap(({ key, endpoints }) => {
        const name = onlyPlace(endpoints, kind);
        return name === undefined ? [] : [{ key, name, endpoints: endpoints.length }];
      });
      return [...Map.groupBy(ports, ({ name }) => name)].map(([name, list]) => ({
        code: kind === 'node' ? ('SINGLE_NODE' as const) : ('SINGLE_ZONE' as const),
        message: `Cannot serve ${list.map(({ key }) => key).join(', ')} when ${kind} ${name} fails: ${
          list.every(({ endpoints }) => endpoints === 1) ? 'its only endpoint is' : 'all endpoints are'
        } there`,
        hint: `Run endpoints on more than one ${kind}`,
      }));
    }),
  );
}

/** The node or zone of all endpoints; undefined where there are several, or one is not known. */
function onlyPlace(endpoints: readonly EndpointFacts[], kind: 'node' | 'zone'): string | undefined {
  const places = new Set(endpoints.map((endpoint) => endpoint[kind]));
  const [only] = places;
  return places.size === 1 ? only : undefined;
}

/** The kinds of places of which the cluster has several: a failure of the only one is no question of where endpoints are. */
export const severalKinds = (context: PolicyContext): readonly PlaceLoss['kind'][] =>
  (['node', 'zone'] as const).filter((kind) => count(context, kind) > 1);

function count({ view }: PolicyContext, kind: 'node' | 'zone'): number {
  if (kind === 'node') return view.nodes.size;
  return new Set([...view.nodes.values()].flatMap(({ zone }) => (zone === undefined ? [] : [zone]))).size;
}

import { usable } from '../bundle/endpoints.ts';
import { addressOfEndpoint, compareText, getOrInsert } from '@sluice/netfilter';
import type { HeaderNote } from '@sluice/bundle';
import type { BundleView } from '../bundle/view.ts';
import { type Baseline, baselineOf, effectOn, type PortEffect } from './effect.ts';
import { allNodes, type FailedPlace, type Outage, outageOf } from './failure.ts';
import { type DeclaredPort, declaredPorts } from './ports.ts';

/** The failures of a bundle, and what each does. */
export interface Failures {
  readonly ports: readonly DeclaredPort[];
  /** The names of all nodes, zones or endpoints that can fail, in byte order; of endpoints their addresses. */
  names(kind: FailedPlace['kind']): readonly string[];
  /** The effects when all of these places fail at once, by key of the port. */
  effects(places: readonly FailedPlace[]): FailureEffects;
}

interface FailureEffects {
  readonly outage: Outage;
  /** The declared endpoints that are lost, ready or not. */
  readonly endpoints: number;
  readonly effects: readonly PortEffect[];
}

/**
 * Prepares the failures of a bundle. The cost of one grows with the ports that have an endpoint there, not with the bundle.
 */
export function failuresOf(view: BundleView): Failures {
  const ports = declaredPorts(view);
  const all = allNodes(view);
  const baselines = new Map<DeclaredPort, Baseline>();
  const baseline = (port: DeclaredPort): Baseline => getOrInsert(baselines, port, () => baselineOf(port, all));
  const index = indexOf(ports);
  const declarations = Map.groupBy(ports, declarationKey);
  const places: Record<FailedPlace['kind'], readonly string[]> = {
    node: sorted([...view.nodes.keys(), ...index.node.keys()]),
    zone: sorted([...[...view.nodes.values()].flatMap(({ zone }) => zone ?? []), ...index.zone.keys()]),
    endpoint: sorted([...index.endpoint.keys()]),
  };
  return {
    ports,
    names: (kind) => places[kind],
    effects(failed) {
      const outage = outageOf(view, failed, all);
      const hit = new Set(failed.flatMap((place) => hitBy(index, place, view)));
      const lost = new Set<string>();
      for (const { endpoints } of hit) for (const one of endpoints) if (outage.isLost(one)) lost.add(one.text);
      const effects = [...hit].flatMap((port) => effectOn(port, baseline(port), outage) ?? []);
      return {
        outage,
        endpoints: lost.size,
        effects: goneEverywhere(effects, declarations, outage).toSorted(
          (a, b) => compareText(a.port.key, b.port.key) || compareText(a.port.family, b.port.family),
        ),
      };
    },
  };
}

const declarationKey = ({ key, family }: DeclaredPort): string => `${key} ${family}`;

/**
 * Effects on ports that profiles declare differently: one that is gone for a profile, but not for another one with nodes, is gone on the
 * nodes of the first alone.
 */
function goneEverywhere(
  effects: readonly PortEffect[],
  declarations: ReadonlyMap<string, readonly DeclaredPort[]>,
  { isLost, survivors }: Outage,
): readonly PortEffect[] {
  const isServed = ({ endpoints, profiles }: DeclaredPort): boolean =>
    survivors.byZone(profiles).size > 0 && usable(endpoints.filter((one) => !isLost(one))).length > 0;
  return effects.map((effect): PortEffect => {
    const { port, isGone } = effect;
    if (!isGone || !declarations.get(declarationKey(port))!.some(isServed)) return effect;
    const without = port.profiles.flatMap((profile): PortEffect['without'] => {
      const nodes = [...survivors.zones.keys()].filter((node) => survivors.has(node, [profile]));
      return nodes.length === 0 ? [] : [{ policy: `profile ${profile}`, nodes }];
    });
    return { ...effect, isGone: false, without, dark: [] };
  });
}

const sorted = (names: readonly string[]): readonly string[] => [...new Set(names)].toSorted(compareText);

/** The ports that have endpoints in a place, by its name. */
type PlaceIndex = Readonly<Record<FailedPlace['kind'], ReadonlyMap<string, readonly DeclaredPort[]>>>;

function indexOf(ports: readonly DeclaredPort[]): PlaceIndex {
  const by = (nameOf: (one: HeaderNote) => string | undefined): ReadonlyMap<string, readonly DeclaredPort[]> => {
    const found = new Map<string, DeclaredPort[]>();
    for (const port of ports)
      for (const endpoint of port.endpoints) {
        const name = nameOf(endpoint);
        if (name === undefined) continue;
        const list = found.get(name);
        if (list === undefined) found.set(name, [port]);
        else if (list.at(-1) !== port) list.push(port);
      }
    return found;
  };
  return {
    node: by(({ node }) => node),
    zone: by(({ zone }) => zone),
    endpoint: by(({ text }) => addressOfEndpoint(text)),
  };
}

/** The nodes of a zone may have endpoints that declare another zone. */
function hitBy(index: PlaceIndex, { kind, name }: FailedPlace, view: BundleView): readonly DeclaredPort[] {
  if (kind === 'endpoint') return index.endpoint.get(name) ?? index.endpoint.get(addressOfEndpoint(name)) ?? [];
  const own = index[kind].get(name) ?? [];
  if (kind === 'node') return own;
  const nodes = [...view.nodes].filter(([, { zone }]) => zone === name);
  return [...own, ...nodes.flatMap(([node]) => index.node.get(node) ?? [])];
}

import type { Family, ProblemCode } from '@sluice/bundle';
import type { Path } from '../kube.ts';
import type { PortOfFamily, Service, ServicePort } from '../model.ts';
import { type FleetSelection, selectForFleet } from '../select/fleet.ts';
import type { Fleet } from '../select/guards.ts';
import { isExternal } from '../select/select.ts';

/** One way in which mode ipvs serves a Service otherwise than mode iptables. */
export interface Difference {
  readonly code: Extract<ProblemCode, `DIFFERS_${string}`>;
  /** Where in the Service the reason stands. */
  readonly path: Path;
  /** A clause that follows "Cannot do in mode ipvs what mode iptables does: ". */
  readonly why: string;
  readonly hint: string;
}

/** The nodes of one profile of mode ipvs. */
export interface Nodes {
  readonly fleet: Fleet;
  /** Names; empty where the input knows no node of the profile, and then any may come. */
  readonly nodes: readonly string[];
  /** In mode iptables node ports would answer on 127.0.0.1. */
  readonly localhost: boolean;
}

/** What one port does in one family, seen from the profile's nodes. */
interface View {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  readonly nodes: Nodes;
}

/**
 * Every way in which the profile's nodes serve a Service otherwise than mode iptables would, each once
 * (the two modes' `syncProxyRules` in `pkg/proxy/iptables` and `pkg/proxy/ipvs`).
 */
export function differencesOf(service: Service, families: readonly Family[], nodes: Nodes): readonly Difference[] {
  const views = service.ports.flatMap((port) =>
    families.flatMap((family): View[] => {
      const here = port.families[family];
      return here ? [{ port, here, family, nodes, selection: selectForFleet(port, here, nodes.fleet) }] : [];
    }),
  );
  return kinds.flatMap(({ holds, ...difference }) => (views.some(holds) ? [difference] : []));
}

const kinds: readonly (Difference & { readonly holds: (view: View) => boolean })[] = [
  {
    code: 'DIFFERS_LOCAL_FALLBACK',
    holds: (view) =>
      (onlyLocalInside(view) || onlyLocalOutside(view)) && view.selection.cluster.length > 0 && lacksLocal(view),
    path: ['spec', 'externalTrafficPolicy'],
    why: 'with policy Local, a node without an endpoint of its own sends traffic to other nodes, where mode iptables drops it',
    hint: 'Let load balancers ask the health-check node port, or run an endpoint on every node',
  },
  {
    code: 'DIFFERS_LOCAL_INSIDE',
    holds: (view) => onlyLocalOutside(view) && hasOthers(view),
    path: ['spec', 'externalTrafficPolicy'],
    why: 'with policy Local, pods and the node itself reach only the endpoints of their node by external addresses and node ports, where mode iptables offers them all',
    hint: 'Let pods use the ClusterIP',
  },
  {
    code: 'DIFFERS_NO_ENDPOINT',
    holds: (view) =>
      !view.selection.hasAny || (onlyLocalInside(view) && view.selection.cluster.length === 0 && lacksLocal(view)),
    path: ['spec', 'selector'],
    why: 'where there is no endpoint to send traffic to, the kernel answers for the virtual server, and no rule rejects or drops',
    hint: 'Nothing has to change where clients need no quick refusal; else see that endpoints are there',
  },
  {
    code: 'DIFFERS_LOCALHOST',
    holds: ({ port, family, nodes }) => port.nodePort !== 0 && family === 'ipv4' && nodes.localhost,
    path: ['spec', 'ports'],
    why: 'node ports do not answer on 127.0.0.1',
    hint: "Use the node's own address; with iptables.localhostNodePorts: false in the profile both modes do the same",
  },
  {
    code: 'DIFFERS_AFFINITY',
    holds: ({ port, here, selection }) =>
      port.affinitySeconds !== undefined && isExternal(port, here) && selection.all.length > 1,
    path: ['spec', 'sessionAffinity'],
    why: 'a client that uses two addresses of the Service may meet two endpoints: affinity is kept for each address by itself',
    hint: 'Let a client that needs affinity stay with one address',
  },
];

function onlyLocalInside({ port }: View): boolean {
  return port.internalTrafficPolicy === 'Local';
}

function onlyLocalOutside({ port, here }: View): boolean {
  return port.externalTrafficPolicy === 'Local' && isExternal(port, here);
}

/** Some node of the profile has no local endpoint, though there are usable ones elsewhere. */
function lacksLocal({ selection, nodes }: View): boolean {
  if (!selection.hasAny) return false;
  const served = new Set(selection.local.flatMap(({ guard }) => (guard?.kind === 'node' ? guard.values : [])));
  return nodes.nodes.length === 0 || nodes.nodes.some((name) => !served.has(name));
}

/** On some node the local endpoints are not all that the node could use. */
function hasOthers({ selection, nodes }: View): boolean {
  const mine = new Set(nodes.nodes);
  return selection.local.some(
    ({ guard, endpoints }) =>
      guard?.kind === 'node' &&
      guard.values.some((name) => mine.has(name)) &&
      selection.cluster.some((variant) => variant.endpoints.some((endpoint) => !endpoints.includes(endpoint))),
  );
}

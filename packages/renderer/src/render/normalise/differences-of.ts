import type { Family, Mode, ProblemCode } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import type { PortOfFamily, Service, ServicePort } from '../model/model.ts';
import { type FleetSelection, selectForFleet } from '../select/fleet.ts';
import type { NodeFleet } from '../select/guards.ts';
import { isExternal } from '../select/select.ts';

/** A difference of a mode from mode iptables for a Service. */
export interface ServiceDifference {
  readonly code: Extract<ProblemCode, `DIFFERS_${string}`>;
  /** The field of the Service that causes it. */
  readonly path: Path;
  /** A clause that follows "Mode ⟨mode⟩ differs from mode iptables: ". */
  readonly why: string;
  readonly hint: string;
}

/** The nodes of one profile of mode ipvs or nftables. */
interface ProfileNodes {
  readonly mode: Exclude<Mode, 'iptables'>;
  readonly fleet: NodeFleet;
  /** Names; empty if the input has no node of the profile, so that any node may be added. */
  readonly nodes: readonly string[];
  /** Whether node ports would be open on 127.0.0.1 in mode iptables alone. */
  readonly localhost: boolean;
}

/** One port in one family on the profile's nodes. */
interface PortView {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  readonly nodes: ProfileNodes;
}

/**
 * The differences of a Service on the profile's nodes from mode iptables, each once
 * (the modes' `syncProxyRules` in `pkg/proxy/iptables`, `pkg/proxy/ipvs` and `pkg/proxy/nftables`).
 */
export function differencesOf(
  service: Service,
  families: readonly Family[],
  nodes: ProfileNodes,
): readonly ServiceDifference[] {
  const views = service.ports.flatMap((port) =>
    families.flatMap((family): PortView[] => {
      const here = port.families[family];
      return here ? [{ port, here, family, nodes, selection: selectForFleet(port, here, nodes.fleet) }] : [];
    }),
  );
  return kinds[nodes.mode].flatMap(({ holds, ...difference }) => (views.some(holds) ? [difference] : []));
}

interface DifferenceKind extends ServiceDifference {
  readonly holds: (view: PortView) => boolean;
}

const localhost: DifferenceKind = {
  code: 'DIFFERS_LOCALHOST',
  holds: ({ port, family, nodes }) => port.nodePort !== 0 && family === 'ipv4' && nodes.localhost,
  path: ['spec', 'ports'],
  why: 'node ports are not open on 127.0.0.1',
  hint: "Use the node's own address; with iptables.localhostNodePorts: false in the profile both modes do the same",
};

const affinity: DifferenceKind = {
  code: 'DIFFERS_AFFINITY',
  holds: ({ port, here, selection }) =>
    port.affinitySeconds !== undefined && isExternal(port, here) && selection.all.length > 1,
  path: ['spec', 'sessionAffinity'],
  why: 'a client that uses two addresses of the Service may get two endpoints: affinity is separate for each address',
  hint: 'Use a single address in clients that need affinity',
};

const ofIpvs: readonly DifferenceKind[] = [
  {
    code: 'DIFFERS_LOCAL_FALLBACK',
    holds: (view) =>
      (onlyLocalInside(view) || onlyLocalOutside(view)) && view.selection.cluster.length > 0 && lacksLocal(view),
    path: ['spec', 'externalTrafficPolicy'],
    why: 'with policy Local, a node without a local endpoint forwards traffic to other nodes, where mode iptables drops it',
    hint: 'Configure load balancers to use the health-check node port, or run an endpoint on every node',
  },
  {
    code: 'DIFFERS_LOCAL_INSIDE',
    holds: (view) => onlyLocalOutside(view) && hasOthers(view),
    path: ['spec', 'externalTrafficPolicy'],
    why: 'with policy Local, pods and the node itself reach only the endpoints of their node by external addresses and node ports, where mode iptables offers them all',
    hint: 'Use the ClusterIP in pods',
  },
  {
    code: 'DIFFERS_NO_ENDPOINT',
    holds: (view) =>
      !view.selection.hasAny || (onlyLocalInside(view) && view.selection.cluster.length === 0 && lacksLocal(view)),
    path: ['spec', 'selector'],
    why: 'without a usable endpoint the kernel answers for the virtual server, and no rule rejects or drops',
    hint: 'No change is needed unless clients depend on a fast rejection; then make sure that there are endpoints',
  },
  localhost,
  affinity,
];

const ofNftables: readonly DifferenceKind[] = [
  {
    code: 'DIFFERS_NO_ENDPOINT',
    holds: ({ here, selection }) => !selection.hasAny && here.externalIPs.length + here.loadBalancerIPs.length > 0,
    path: ['spec', 'selector'],
    why: 'without a usable endpoint, external addresses reject the node itself, too, and drop sources outside of the source ranges',
    hint: 'No change is needed unless clients depend on how they are refused; then make sure that there are endpoints',
  },
  {
    ...localhost,
    hint: "Use the node's own address, or set featureGates: {KubeProxyNFTablesLocalhostNodePorts: true} and nodePortAddresses: [primary, localhost]",
  },
  {
    code: 'DIFFERS_HEALTH_CHECK',
    holds: ({ port }) => port.healthCheckNodePort !== 0,
    path: ['spec', 'healthCheckNodePort'],
    why: 'no rule accepts packets to the health-check node port, so that a firewall of the node may drop them',
    hint: 'Open the port in the firewall of the nodes, if they have one',
  },
  affinity,
];

const kinds = { ipvs: ofIpvs, nftables: ofNftables } as const satisfies Record<ProfileNodes['mode'], unknown>;

function onlyLocalInside({ port }: PortView): boolean {
  return port.internalTrafficPolicy === 'Local';
}

function onlyLocalOutside({ port, here }: PortView): boolean {
  return port.externalTrafficPolicy === 'Local' && isExternal(port, here);
}

/** Whether a node of the profile has no local endpoint, although other nodes have usable ones. */
function lacksLocal({ selection, nodes }: PortView): boolean {
  if (!selection.hasAny) return false;
  const served = new Set(selection.local.flatMap(({ guard }) => (guard?.kind === 'node' ? guard.values : [])));
  return nodes.nodes.length === 0 || nodes.nodes.some((name) => !served.has(name));
}

/** Whether a node with local endpoints would use others, too, or not all of them: topology hints may leave some out. */
function hasOthers({ selection, nodes }: PortView): boolean {
  const mine = new Set(nodes.nodes);
  return selection.local.some(
    ({ guard, endpoints }) =>
      guard?.kind === 'node' &&
      guard.values.some((name) => mine.has(name)) &&
      selection.cluster.some((variant) => !isSameList(variant.endpoints, endpoints)),
  );
}

/** Whether two lists without duplicates have the same elements, in any order. */
export function isSameList<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && one.every((element) => other.includes(element));
}

import type { Guard, GuardedRule } from '@sluice/bundle';
import type { PortOfFamily, ServicePort } from '../model/model.ts';
import type { FleetSelection } from '../select/fleet.ts';
import { isExternal } from '../select/select.ts';
import type { Detector } from './detector.ts';
import type { PortChains } from '../model/chain-names.ts';

/** The input of the rules of one Service port in one family. */
export interface CompiledPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly chains: PortChains;
  /** The chains of endpoints that at least one node uses, by the endpoint's text. */
  readonly endpointChains: ReadonlyMap<string, string>;
  readonly selection: FleetSelection;
  readonly masqueradeAll: boolean;
  readonly detector: Detector;
}

/** The nodes that have a rule: all (`true`), none (`false`), or those of a guard. */
export type NodeScope = Guard | boolean;

/** The target chain of traffic, with the nodes on which it has endpoints and those on which it has none. */
interface ChainTarget {
  readonly chain: string;
  readonly served: NodeScope;
  readonly unserved: NodeScope;
}

/** The chain for traffic from inside the cluster: kube-proxy's `internalTrafficChain` and `hasInternalEndpoints`. */
export function internalTarget(compiled: CompiledPort): ChainTarget {
  return compiled.port.internalTrafficPolicy === 'Local' ? localTarget(compiled) : clusterTarget(compiled);
}

/** The chain for external traffic (`externalTrafficChain`, `hasExternalEndpoints`). */
export function externalTarget(compiled: CompiledPort): ChainTarget {
  return compiled.port.externalTrafficPolicy === 'Local' ? localTarget(compiled) : clusterTarget(compiled);
}

function clusterTarget({ chains, selection }: CompiledPort): ChainTarget {
  const served = selection.cluster.length > 0;
  return { chain: chains.cluster, served, unserved: !served };
}

function localTarget({ chains, selection }: CompiledPort): ChainTarget {
  // A guard may only name a chain that the file declares, and a chain that is empty on every node is not declared.
  if (selection.local.length === 0) return { chain: chains.local, served: false, unserved: true };
  return {
    chain: chains.local,
    served: { kind: 'local', negated: false, chain: chains.local },
    unserved: { kind: 'local', negated: true, chain: chains.local },
  };
}

/** Whether external traffic has a chain: kube-proxy's `usesExternalTrafficChain`. */
export function usesExternalChain({ port, here, selection }: CompiledPort): boolean {
  return selection.hasAny && isExternal(port, here);
}

/** Whether load-balancer addresses are restricted (`usesFWChain`): without a range of this family all sources are admitted. */
export function usesFirewallChain({ here, selection }: CompiledPort): boolean {
  return selection.hasAny && here.loadBalancerIPs.length > 0 && here.loadBalancerSourceRanges.length > 0;
}

/** A rule for the nodes that have it, as a list of one or none. */
export function ruleWhere(scope: NodeScope, text: string): readonly GuardedRule[] {
  if (scope === false) return [];
  return [scope === true ? { text } : { guard: scope, text }];
}

/** `-m tcp -p tcp`, in kube-proxy's order. */
export function protocolMatch({ port }: CompiledPort): string {
  const protocol = port.protocol.toLowerCase();
  return `-m ${protocol} -p ${protocol}`;
}

/** The match for packets to one of the port's addresses. */
export function addressMatch(compiled: CompiledPort, address: string): string {
  return `${protocolMatch(compiled)} -d ${address} --dport ${compiled.port.port}`;
}

/** A quoted comment that names the port. */
export function comment(text: string): string {
  return `-m comment --comment "${text}"`;
}

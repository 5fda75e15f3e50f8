import type { Guard, GuardedRule } from '@sluice/bundle';
import type { PortOfFamily, ServicePort } from '../model.ts';
import type { FleetSelection } from '../select/fleet.ts';
import { isExternal } from '../select/select.ts';
import type { Detector } from './detector.ts';
import type { PortChains } from './names.ts';

/** All that the rules of one Service port in one family depend on. */
export interface CompiledPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly chains: PortChains;
  /** The chain of every endpoint that some node uses, by the endpoint's text. */
  readonly endpointChains: ReadonlyMap<string, string>;
  readonly selection: FleetSelection;
  readonly masqueradeAll: boolean;
  readonly detector: Detector;
}

/** On which nodes something stands: all (`true`), none (`false`), or those of a guard. */
export type Standing = Guard | boolean;

/** A chain that traffic is sent to, with the nodes that have rules in it and those that have none. */
export interface Target {
  readonly chain: string;
  readonly served: Standing;
  readonly unserved: Standing;
}

/** The chain for traffic from inside the cluster: kube-proxy's `internalTrafficChain` and `hasInternalEndpoints`. */
export function internalTarget(compiled: CompiledPort): Target {
  return compiled.port.internalTrafficPolicy === 'Local' ? localTarget(compiled) : clusterTarget(compiled);
}

/** The chain for traffic from outside (`externalTrafficChain`, `hasExternalEndpoints`). */
export function externalTarget(compiled: CompiledPort): Target {
  return compiled.port.externalTrafficPolicy === 'Local' ? localTarget(compiled) : clusterTarget(compiled);
}

function clusterTarget({ chains, selection }: CompiledPort): Target {
  const served = selection.cluster.length > 0;
  return { chain: chains.cluster, served, unserved: !served };
}

function localTarget({ chains, selection }: CompiledPort): Target {
  // A guard may only name a chain that the file declares, and a chain that is empty on every node is not declared.
  if (selection.local.length === 0) return { chain: chains.local, served: false, unserved: true };
  return {
    chain: chains.local,
    served: { kind: 'local', negated: false, chain: chains.local },
    unserved: { kind: 'local', negated: true, chain: chains.local },
  };
}

/** Whether traffic from outside has a chain: kube-proxy's `usesExternalTrafficChain`. */
export function usesExternalChain({ port, here, selection }: CompiledPort): boolean {
  return selection.hasAny && isExternal(port, here);
}

/** Whether load-balancer addresses are closed to some (`usesFWChain`): without a range of this family everybody may come. */
export function usesFirewallChain({ here, selection }: CompiledPort): boolean {
  return selection.hasAny && here.loadBalancerIPs.length > 0 && here.loadBalancerSourceRanges.length > 0;
}

/** The rule on the nodes where it stands, as a list of one or none. */
export function ruleWhere(standing: Standing, text: string): readonly GuardedRule[] {
  if (standing === false) return [];
  return [standing === true ? { text } : { guard: standing, text }];
}

/** `-m tcp -p tcp`, in kube-proxy's order. */
export function protocolMatch({ port }: CompiledPort): string {
  const protocol = port.protocol.toLowerCase();
  return `-m ${protocol} -p ${protocol}`;
}

/** The rules of traffic to one of the port's own addresses. */
export function addressMatch(compiled: CompiledPort, address: string): string {
  return `${protocolMatch(compiled)} -d ${address} --dport ${compiled.port.port}`;
}

/** A quoted comment that names the port. */
export function comment(text: string): string {
  return `-m comment --comment "${text}"`;
}

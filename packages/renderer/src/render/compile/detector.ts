import type { Profile } from '../model/config.ts';

/**
 * The matches for traffic of the node's own pods and for all other traffic (kube-proxy's `pkg/proxy/util/localdetector.go`).
 * For a family without a CIDR the variable has no value, and the rule is left out, as in kube-proxy.
 */
export interface Detector {
  readonly ifLocal: string;
  readonly ifNotLocal: string;
}

const matches = {
  ClusterCIDR: '-s ${profile.clusterCIDR}',
  NodeCIDR: '-s ${node.podCIDR}',
  BridgeInterface: '-i ${profile.bridgeInterface}',
  InterfaceNamePrefix: '-i ${profile.interfaceNamePrefix}+',
} as const satisfies Record<Profile['detectLocalMode'], string>;

export function detectorOf(mode: Profile['detectLocalMode']): Detector {
  return { ifLocal: matches[mode], ifNotLocal: `! ${matches[mode]}` };
}

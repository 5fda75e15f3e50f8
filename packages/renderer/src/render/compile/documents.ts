import {
  type ClusterFile,
  ineligibilityLine,
  type IpvsOptions,
  type NodeFile,
  type ProfileFile,
  type VariableValues,
} from '@sluice/bundle';
import { type Family, compareText, modeFacts } from '@sluice/netfilter';
import { stringify } from 'yaml';
import type { SluiceConfig, IpvsProfile, Profile } from '../model/config.ts';
import type { Node } from '../model/model.ts';
import { chosenCidrs } from '../model/nodeports.ts';
import { isBefore } from '../model/version.ts';

/** `cluster.yaml`. @param complete the input has every Service and endpoint of the cluster */
export function clusterText(config: SluiceConfig, complete: boolean): string {
  const serviceCIDRs = Object.values(config.serviceCIDRs).flat().toSorted(compareText);
  return documentText('Cluster', { format: 1, name: config.clusterName, complete, serviceCIDRs } satisfies ClusterFile);
}

/** `profile.yaml`. */
export function profileText(profile: Profile): string {
  const families = (['ipv4', 'ipv6'] as const).filter((family) => profile.families.includes(family));
  return documentText('Profile', {
    mode: profile.mode,
    ...(profile.ipvs && { ipvs: ipvsOptions(profile.ipvs) }),
    families,
    needs: modeFacts[profile.mode].hasTables && profile.iptables.randomFully ? ['random-fully'] : [],
    nodePortAddresses: chosenCidrs(profile),
    values: profileValues(profile, families),
  } satisfies ProfileFile);
}

function ipvsOptions({ scheduler, excludeCIDRs, strictARP }: IpvsProfile): IpvsOptions {
  return { scheduler, excludeCIDRs, strictARP };
}

/** The values of the profile's detector. */
function profileValues(profile: Profile, families: readonly Family[]): VariableValues {
  switch (profile.detectLocalMode) {
    case 'ClusterCIDR':
      return perFamily(families, (family) => known({ clusterCIDR: profile.clusterCIDR[family] }));
    case 'BridgeInterface':
      return known({ bridgeInterface: profile.detectLocal.bridgeInterface });
    case 'InterfaceNamePrefix':
      return known({ interfaceNamePrefix: profile.detectLocal.interfaceNamePrefix });
    case 'NodeCIDR':
      return {};
  }
}

/** `node.yaml`: the values of a node, and those that its profile derives from them. */
export function nodeText(node: Node, profile: Profile): string {
  const addresses = perFamily(['ipv4', 'ipv6'], (family) =>
    known({ address: node.address[family], podCIDR: node.podCIDR[family] }),
  );
  const document = documentText('Node', {
    profile: node.profile,
    ...(node.zone === undefined ? {} : { zone: node.zone }),
    values: { ...known({ cores: node.cores }), ...conntrackValues(node, profile), ...addresses },
  } satisfies NodeFile);
  return ineligibilityLine(node.ineligible) + document;
}

/** Connections that kube-proxy computes from the number of cores at most, whatever the minimum: `getConntrackMax` since 1.36. */
const scaledMax = 1_048_576;

/** The size of the conntrack table and of its hash, if the number of cores is known. */
function conntrackValues(
  { cores }: Node,
  { conntrack: { maxPerCore, min }, kubeProxyVersion }: Profile,
): VariableValues {
  if (cores === undefined || maxPerCore === 0) return {};
  const scaled = maxPerCore * cores;
  const isCapped = scaled > scaledMax && !isBefore(kubeProxyVersion, '1.36');
  const conntrackMax = isCapped ? scaledMax : Math.max(min, scaled);
  return { conntrackMax, conntrackHashSize: Math.floor(conntrackMax / 4) };
}

type KnownValues = Readonly<Record<string, string | number>>;

/** Drops undefined and empty values. */
function known(values: Readonly<Record<string, string | number | undefined>>): KnownValues {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
  return Object.fromEntries(entries) as KnownValues;
}

function perFamily(families: readonly Family[], of: (family: Family) => KnownValues): VariableValues {
  const entries = families.map((family) => [family, of(family)] as const);
  return Object.fromEntries(entries.filter(([, values]) => Object.keys(values).length > 0));
}

/** Prints a document. Keys keep their order; texts that YAML 1.1 would read as other types are quoted. */
function documentText(kind: string, rest: object): string {
  const options = { compat: 'yaml-1.1', lineWidth: 0, aliasDuplicateObjects: false } as const;
  return stringify({ apiVersion: 'sluice.dev/v1alpha1', kind, ...rest }, options);
}

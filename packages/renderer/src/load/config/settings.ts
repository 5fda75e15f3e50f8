import { affinityClientsDefault, type Problem, canonicalCidr, type Family, type Place } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type Origin, type Path } from '../../render/model/kube.ts';
import { parseGoDuration } from '../schema/duration.ts';

/**
 * The settings of a profile by path, with their defaults. Defaults are kube-proxy's (`pkg/proxy/apis/config/v1alpha1/defaults.go`); what
 * kube-proxy detects at run time is fixed here: both families, --random-fully. Durations are in seconds.
 */
export const defaults = {
  // Not a field of KubeProxyConfiguration; `''` means unset.
  kubeProxyVersion: '' as string,
  mode: 'iptables' as string,
  families: ['ipv4', 'ipv6'] as readonly Family[],
  'featureGates.AllowServiceExternalIPs': true as boolean,
  // Off before kube-proxy 1.38.
  'featureGates.KubeProxyNFTablesLocalhostNodePorts': undefined as boolean | undefined,
  'iptables.masqueradeBit': 14 as number,
  'iptables.masqueradeAll': false as boolean,
  'iptables.localhostNodePorts': true as boolean,
  'iptables.randomFully': true as boolean,
  'nftables.masqueradeAll': false as boolean,
  'nftables.tcpReset': false as boolean,
  'nftables.affinityClients': affinityClientsDefault as number,
  'nftables.endpointCounters': false as boolean,
  'ipvs.scheduler': 'rr' as string,
  'ipvs.excludeCIDRs': [] as readonly string[],
  'ipvs.strictARP': false as boolean,
  'ipvs.tcpTimeout': 0 as number,
  'ipvs.tcpFinTimeout': 0 as number,
  'ipvs.udpTimeout': 0 as number,
  detectLocalMode: 'ClusterCIDR' as string,
  'detectLocal.bridgeInterface': '' as string,
  'detectLocal.interfaceNamePrefix': '' as string,
  clusterCIDR: [] as readonly string[],
  nodePortAddresses: [] as readonly string[],
  'conntrack.maxPerCore': 32768 as number,
  'conntrack.min': 131072 as number,
  'conntrack.tcpEstablishedTimeout': 86400 as number,
  'conntrack.tcpCloseWaitTimeout': 3600 as number,
  'conntrack.udpTimeout': 0 as number,
  'conntrack.udpStreamTimeout': 0 as number,
  'conntrack.tcpBeLiberal': false as boolean,
  sysctls: {} as Readonly<Record<string, string | number>>,
} as const;

export type Defaults = typeof defaults;
export type SettingName = keyof Defaults;
export const settingNames = Object.keys(defaults) as readonly SettingName[];

/** One field that a file sets. */
export interface Setting {
  /** In canonical form: seconds, canonical CIDRs. */
  readonly value: Json;
  /** As written in the file. */
  readonly spelled: string;
  readonly place: Place;
  /** Its path in the file. */
  readonly path: Path;
}

/** The fields that one file sets, without absent and invalid ones. */
export type Settings = ReadonlyMap<SettingName, Setting>;

/**
 * Collects the settings of a mapping.
 * @param value the profile or the KubeProxyConfiguration, checked by its schema
 * @param prefix the path of `value` in the document of `origin`
 * @param wrong paths with problems, which are left out
 * @param isUnset values that mean "not set" in this file
 */
export function settingsOf(
  value: JsonObject,
  origin: Origin,
  prefix: Path,
  wrong: readonly Path[],
  isUnset: (value: Json) => boolean = () => false,
): Settings {
  const settings = new Map<SettingName, Setting>();
  for (const name of settingNames) {
    const below = name.split('.');
    const found = below.reduce<Json | undefined>((at, key) => childOf(at, key), value);
    const path = [...prefix, ...below];
    if (found === undefined || isUnset(found) || wrong.some((other) => touches(other, path))) continue;
    settings.set(name, { value: normal(name, found), spelled: spell(found), place: origin.place(path), path });
  }
  return settings;
}

/** Whether one path is a prefix of the other. */
export function touches(a: Path, b: Path): boolean {
  const length = Math.min(a.length, b.length);
  return a.slice(0, length).every((part, index) => part === b[index]);
}

export function childOf(value: Json | undefined, key: string): Json | undefined {
  return isMap(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function normal(name: SettingName, value: Json): Json {
  if (name.endsWith('Timeout') && typeof value === 'string') return parseGoDuration(value) ?? 0;
  if (name === 'clusterCIDR' && typeof value === 'string') return canonicalList(value === '' ? [] : value.split(','));
  if ((name === 'nodePortAddresses' || name === 'ipvs.excludeCIDRs') && Array.isArray(value))
    return canonicalList(value as readonly string[]);
  return value;
}

function canonicalList(texts: readonly string[]): readonly string[] {
  return [...new Set(texts.map((text) => canonicalCidr(text) ?? text))];
}

function spell(value: Json): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
}

/** Looks up a setting of the profile, with its default. */
export type Get = <K extends SettingName>(name: K) => Defaults[K];

/** Reports a problem of a setting: why, a hint, and overrides of the default, an error `CONFIG_INVALID`. */
export type Complain = (name: SettingName, why: string, hint: string, more?: Partial<Problem>, below?: Path) => void;

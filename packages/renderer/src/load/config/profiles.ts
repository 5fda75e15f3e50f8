import { checkSysctl, compareText, type Mode, notice, type Place, parseCidr, type Problem } from '@sluice/netfilter';
import type { LabelSelector, Profile } from '../../render/model/config.ts';
import type { Json, Path } from '../../render/model/kube.ts';
import type { PerFamily } from '../../render/model/model.ts';
import { configProblem, ignoredProblem } from './problems.ts';
import { checkIpvs, ipvsOf } from './ipvs.ts';
import {
  type Defaults,
  defaults,
  type Get,
  type Setting,
  type SettingName,
  type Settings,
  settingNames,
} from './settings.ts';
import { isBefore, isKubeProxyVersion } from '../../render/model/version.ts';
import { unsupportedMode } from '../schema/formats.ts';

/** A profile before merging: its name, its node selector and the settings of sluice.yaml. */
export interface ProfileDraft {
  readonly name: string;
  readonly nodeSelector: LabelSelector;
  readonly settings: Settings;
  /** The place of the profile; for the built-in one, the start of the config. */
  readonly place: Place;
  readonly path: Path;
}

/** Merges sluice.yaml over kube-proxy's configuration over the defaults, and checks the result. */
export function makeProfile(
  draft: ProfileDraft,
  kubeProxy: Settings,
): { profile: Profile; problems: readonly Problem[] } {
  const chosen = (name: SettingName): Setting | undefined => draft.settings.get(name) ?? kubeProxy.get(name);
  const get: Get = <K extends SettingName>(name: K): Defaults[K] =>
    (chosen(name)?.value ?? defaults[name]) as Defaults[K];
  const profile: Profile = {
    name: draft.name,
    nodeSelector: draft.nodeSelector,
    ...versionOf(get('kubeProxyVersion')),
    ...(optionsOf[get('mode') as Mode] ?? optionsOf.iptables)(get),
    families: get('families').toSorted(compareText),
    featureGates: gatesOf(get),
    iptables: groupOf('iptables', get),
    detectLocalMode: get('detectLocalMode') as Profile['detectLocalMode'],
    detectLocal: groupOf('detectLocal', get),
    clusterCIDR: byFamily(get('clusterCIDR')),
    nodePortAddresses: get('nodePortAddresses'),
    conntrack: groupOf('conntrack', get),
    sysctls: sorted(get('sysctls')),
  };
  const check: ProfileCheck = { profile, draft, chosen, problems: [] };
  checkMode(check);
  checkNftables(check);
  checkIpvs(profile, chosen, (...complaint) => complain(check, ...complaint));
  checkDetector(check);
  checkTimeouts(check);
  checkSysctls(check);
  return { profile, problems: [...overridden(draft, kubeProxy), ...check.problems] };
}

/** The options that only a mode has. */
const optionsOf = {
  iptables: () => ({ mode: 'iptables' }),
  ipvs: (get) => ({ mode: 'ipvs', ipvs: ipvsOf(get) }),
  nftables: (get) => ({ mode: 'nftables', nftables: groupOf('nftables', get) }),
} as const satisfies Record<Mode, (get: Get) => Pick<Profile, 'mode' | 'ipvs' | 'nftables'>>;

/** The settings below one name. The kernel takes whole seconds. */
function groupOf<Group extends string>(group: Group, get: Get): GroupOf<Group> {
  const names = settingNames.filter((name) => name.startsWith(`${group}.`));
  const whole = (value: Json | undefined): Json | undefined => (typeof value === 'number' ? Math.floor(value) : value);
  return Object.fromEntries(names.map((name) => [name.slice(group.length + 1), whole(get(name))])) as GroupOf<Group>;
}

type GroupOf<Group extends string> = {
  readonly [Name in SettingName as Name extends `${Group}.${infer Field}` ? Field : never]: Defaults[Name];
};

function gatesOf(get: Get): Profile['featureGates'] {
  const localhost = get('featureGates.KubeProxyNFTablesLocalhostNodePorts');
  return {
    AllowServiceExternalIPs: get('featureGates.AllowServiceExternalIPs'),
    ...(localhost !== undefined && { KubeProxyNFTablesLocalhostNodePorts: localhost }),
  };
}

function versionOf(kubeProxyVersion: string): Pick<Profile, 'kubeProxyVersion'> {
  return isKubeProxyVersion(kubeProxyVersion) ? { kubeProxyVersion } : {};
}

/** The CIDRs of a list, the first of each family. */
function byFamily(cidrs: readonly string[]): PerFamily<string> {
  const first = (family: 'ipv4' | 'ipv6'): string | undefined =>
    cidrs.find((cidr) => parseCidr(cidr)?.family === family);
  const [ipv4, ipv6] = [first('ipv4'), first('ipv6')];
  return { ...(ipv4 !== undefined && { ipv4 }), ...(ipv6 !== undefined && { ipv6 }) };
}

function sorted(sysctls: Readonly<Record<string, string | number>>): Readonly<Record<string, string>> {
  const entries = Object.entries(sysctls).toSorted(([a], [b]) => compareText(a, b));
  return Object.fromEntries(entries.map(([key, value]) => [key, String(value)]));
}

/** One note for each field with different values in both files. */
function overridden(draft: ProfileDraft, kubeProxy: Settings): Problem[] {
  return settingNames.flatMap((name) => {
    const [ours, theirs] = [draft.settings.get(name), kubeProxy.get(name)];
    if (!ours || !theirs || JSON.stringify(ours.value) === JSON.stringify(theirs.value)) return [];
    const where = `${theirs.place.file}:${theirs.place.line}`;
    return [
      notice(
        'CONFIG_OVERRIDES',
        `${name} is set twice: ${ours.spelled} here overrides ${theirs.spelled} of KubeProxyConfiguration at ${where}`,
        'Remove the field from one of the two files if they should agree',
        { at: ours.place, object: `Profile ${draft.name}` },
      ),
    ];
  });
}

interface ProfileCheck {
  readonly profile: Profile;
  readonly draft: ProfileDraft;
  readonly chosen: (name: SettingName) => Setting | undefined;
  readonly problems: Problem[];
}

/** Adds a problem of a setting, at its place, or at the profile when it is not set. */
function complain(
  check: ProfileCheck,
  name: SettingName,
  why: string,
  hint: string,
  more: Partial<Problem> = {},
  below: Path = [],
): void {
  const setting = check.chosen(name);
  const at = setting?.place ?? check.draft.place;
  const path = [...(setting?.path ?? [...check.draft.path, ...name.split('.')]), ...below];
  check.problems.push({ ...configProblem(at, `Profile ${check.draft.name}`, path, why, hint), ...more });
}

function checkMode(check: ProfileCheck): void {
  const mode = check.chosen('mode')?.value;
  if (mode === undefined) checkDefaultMode(check);
  const wrong = typeof mode === 'string' ? unsupportedMode(mode) : undefined;
  if (!wrong) return;
  const hint = 'Set mode: iptables, ipvs or nftables in the profile of sluice.yaml; Services need no change';
  complain(check, 'mode', `${JSON.stringify(mode)} ${wrong.why}`, hint, { code: 'CONFIG_UNSUPPORTED' });
}

/** kube-proxy 1.38 logs an error where no mode is named; Sluice says it in profiles of that version. */
function checkDefaultMode(check: ProfileCheck): void {
  if (isBefore(check.profile.kubeProxyVersion, '1.38')) return;
  const hint =
    'Set mode: iptables to keep it with any version, or mode: nftables to go there now: /usr/share/doc/sluice/adopt.md, "A change of Sluice\'s own mode"';
  complain(check, 'mode', '', hint, {
    code: 'MODE_BY_DEFAULT',
    level: 'note',
    message:
      'No mode is set, which means iptables; from Kubernetes 1.40 on (expected in August 2027) it means nftables for kube-proxy',
  });
}

/** What mode nftables needs, and options of mode iptables: they have no effect in it, in kube-proxy neither. */
function checkNftables(check: ProfileCheck): void {
  const { profile, draft, problems } = check;
  if (!profile.nftables) return;
  const upgrade = 'Upgrade sluiced on all nodes of the profile first, then give them a bundle of this mode';
  const message =
    'Mode nftables needs nodes with nft and this version of sluiced or a later one; older ones refuse the bundle';
  complain(check, 'mode', '', upgrade, { code: 'MODE_NEEDS_SLUICED', level: 'note', message });
  const chosen = [...draft.settings].filter(
    ([name, { value }]) => name.startsWith('iptables.') && value !== defaults[name],
  );
  const [first] = chosen;
  if (!first) return;
  const paths = chosen.map(([, { path }]) => path);
  const why = 'options of mode iptables have no effect in mode nftables';
  const hint = 'Remove it; masqueradeAll of this mode is in nftables';
  problems.push(ignoredProblem(first[1].place, `Profile ${profile.name}`, paths, why, hint));
}

/** `ValidateKubeProxyConfiguration`: the interface modes need their interface. */
function checkDetector(check: ProfileCheck): void {
  const { detectLocalMode, detectLocal } = check.profile;
  const needed = { BridgeInterface: 'bridgeInterface', InterfaceNamePrefix: 'interfaceNamePrefix' } as const;
  const field =
    detectLocalMode === 'BridgeInterface' || detectLocalMode === 'InterfaceNamePrefix'
      ? needed[detectLocalMode]
      : undefined;
  if (!field || detectLocal[field] !== '') return;
  complain(check, 'detectLocalMode', `${detectLocalMode} needs detectLocal.${field}`, `Set detectLocal.${field}`);
}

/** The sysctl that kube-proxy writes for each timeout (`pkg/proxy/conntrack/sysctls.go`). */
const timeouts = {
  'conntrack.tcpEstablishedTimeout': 'net.netfilter.nf_conntrack_tcp_timeout_established',
  'conntrack.tcpCloseWaitTimeout': 'net.netfilter.nf_conntrack_tcp_timeout_close_wait',
  'conntrack.udpTimeout': 'net.netfilter.nf_conntrack_udp_timeout',
  'conntrack.udpStreamTimeout': 'net.netfilter.nf_conntrack_udp_timeout_stream',
} as const satisfies Partial<Record<SettingName, string>>;

function checkTimeouts(check: ProfileCheck): void {
  for (const [name, key] of Object.entries(timeouts) as [keyof typeof timeouts, string][]) {
    const value = Number(check.chosen(name)?.value ?? 0);
    const seconds = Math.floor(value);
    const rounded = `the kernel uses whole seconds, so this becomes ${seconds}`;
    if (seconds !== value) complain(check, name, rounded, 'Round the duration', { level: 'warning' });
    const wrong = seconds === 0 ? '' : checkSysctl(key, String(seconds));
    if (typeof wrong !== 'string' || wrong === '') continue;
    const hint = 'Use at most 720h0m0s, or 0s to keep the value of the kernel';
    complain(check, name, `${seconds} seconds is outside the range of ${key}`, hint, { code: 'SYSCTL_NOT_ALLOWED' });
  }
}

function checkSysctls(check: ProfileCheck): void {
  for (const [key, value] of Object.entries(check.profile.sysctls)) {
    const wrong: Json | object = checkSysctl(key, value);
    if (typeof wrong !== 'string') continue;
    const why = `${JSON.stringify(value)}: ${wrong.slice(wrong.indexOf(': ') + 2)}`;
    const hint = 'Remove it, or set it outside of Sluice';
    complain(check, 'sysctls', why, hint, { code: 'SYSCTL_NOT_ALLOWED' }, [key]);
  }
}

import {
  addAll,
  canonicalCidr,
  compareText,
  type Level,
  modes,
  parseCidr,
  type Place,
  type Problem,
} from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, mapOf } from '../../render/model/kube.ts';
import { isKubeProxyVersion, kubeProxyVersions } from '../../render/model/version.ts';
import {
  type Fact,
  type FactName,
  type KubeProxyInput,
  type ProxyConfig,
  type ProxySources,
  readSources,
} from './kube-proxy-sources.ts';
import { configProblem, findingProblem, ignoredProblem } from './problems.ts';
import { childOf, defaults, type SettingName, settingNames, type Settings, settingsOf } from './settings.ts';
import type { TextOrigin } from './text.ts';
import { unfollowedFields } from './unfollowed.ts';
import { nodePortWords, parsePortRange } from '../schema/formats.ts';
import { checkSchema, type SchemaFinding } from '../schema/schema.ts';
import { parseGoDuration } from '../schema/duration.ts';
import { kubeProxySchema } from '../schema/kubeproxy.ts';

/** What the inputs say about a cluster beside the settings of kube-proxy. */
export interface ClusterFacts {
  /** Networks of ClusterIPs, one a family, separated by a comma. */
  readonly serviceCIDRs?: Fact;
  readonly nodePortRange?: Fact;
}

export interface ReadKubeProxy {
  readonly settings: Settings;
  readonly facts: ClusterFacts;
  /** The feature gates that are named. */
  readonly gates: readonly NamedGate[];
  readonly problems: readonly Problem[];
}

/** A feature gate in a configuration. */
export interface NamedGate {
  readonly name: string;
  readonly place: Place;
  /** The configuration in problems. */
  readonly object: string;
}

/**
 * Reads everything that says how kube-proxy runs; two sources that contradict are a problem.
 * @returns the settings. Problems are those of kube-proxy (`pkg/proxy/apis/config/validation`), and contradictions
 */
export function readKubeProxy(inputs: readonly KubeProxyInput[]): ReadKubeProxy {
  const sources = readSources(inputs);
  const problems = [...sources.problems];
  const { ofLinux, notes } = withoutWindows(sources.configs);
  const [first, ...others] = ofLinux.map((config) => ({ config, ...check(config) }));
  addAll(problems, notes);
  addAll(problems, first?.problems ?? []);
  for (const other of others) {
    // Of equal texts each problem is reported once.
    if (canonical(other.config.value) !== canonical((first as Checked).config.value)) addAll(problems, other.problems);
    addAll(problems, contradiction(first as Checked, other));
  }
  const facts = factsOf(sources, problems);
  const settings = completed(first, facts, problems);
  return { settings, facts, gates: ofLinux.flatMap(gatesOf), problems };
}

const gatesOf = ({ value, origin, object }: ProxyConfig): readonly NamedGate[] =>
  Object.keys(mapOf(value['featureGates'])).map((name) => {
    return { name, place: origin.place(['featureGates', name]), object };
  });

interface Checked {
  readonly config: ProxyConfig;
  readonly settings: Settings;
  readonly problems: readonly Problem[];
}

/** A cluster with Windows nodes has a configuration for these, too. Alone it is kept: its mode is reported. */
function withoutWindows(configs: readonly ProxyConfig[]): {
  readonly ofLinux: readonly ProxyConfig[];
  readonly notes: readonly Problem[];
} {
  const ofLinux = configs.filter(({ value }) => value['mode'] !== 'kernelspace');
  if (ofLinux.length === 0) return { ofLinux: configs, notes: [] };
  const notes = configs
    .filter((config) => !ofLinux.includes(config))
    .map(({ origin, object }): Problem => {
      const why = 'mode kernelspace is for nodes with Windows';
      return {
        ...ignoredProblem(origin.place([]), object, [['mode']], why, 'Nothing needs to be done'),
        level: 'note',
      };
    });
  return { ofLinux, notes };
}

/** The first setting that two sources give different values. */
function contradiction(first: Checked, other: Checked): readonly Problem[] {
  const valueOf = (settings: Settings, name: SettingName): string =>
    JSON.stringify(settings.get(name)?.value ?? defaults[name]);
  const name = settingNames.find((one) => valueOf(first.settings, one) !== valueOf(other.settings, one));
  if (name === undefined) return [];
  const { file, line } = first.config.origin.place([]);
  const [here, there] = [other, first].map(({ settings }) => valueOf(settings, name));
  const why = `it differs from ${first.config.object} at ${file}:${line}: ${name} is ${here} here, and ${there} there`;
  const { origin, object } = other.config;
  const hint = 'Pass only one of them; for nodes that differ, write profiles in sluice.yaml';
  return [configProblem(origin.place(name.split('.')), object, [], why, hint)];
}

/** One fact of each name; two that differ are a problem. */
function factsOf(sources: ProxySources, problems: Problem[]): ClusterFacts & Partial<Record<FactName, Fact>> {
  const known: Partial<Record<FactName, Fact>> = {};
  for (const [name, fact] of sources.facts) {
    const why = wrongFact[name](fact.text);
    const before = known[name];
    if (why !== undefined) problems.push(ignoredFact(fact, why));
    else if (before === undefined) known[name] = fact;
    else if (before.text !== fact.text) problems.push(twoFacts(before, fact));
  }
  return known;
}

/** Why a fact cannot be used. */
const wrongFact: Readonly<Record<FactName, (text: string) => string | undefined>> = {
  version: (text) => {
    if (isKubeProxyVersion(minorOf(text))) return undefined;
    const [oldest, newest] = [kubeProxyVersions[0], kubeProxyVersions.at(-1)];
    return `${printable(text)} names no version from ${oldest} to ${newest}`;
  },
  podSubnet: wrongCidrs,
  serviceCIDRs: wrongCidrs,
  nodePortRange: (text) => (parsePortRange(text) ? undefined : `${printable(text)} is not a range of ports`),
};

function wrongCidrs(text: string): string | undefined {
  const wrong = text.split(',').find((cidr) => parseCidr(cidr.trim()) === undefined);
  return wrong === undefined ? undefined : `${printable(wrong)} is not a CIDR`;
}

const printable = (text: string): string => JSON.stringify(text.slice(0, 80));

/** The minor version of `v1.32.1`, `1.32`, `stable-1.32` or `v1.32.1+k3s1`; of `stable` or an address, the text itself. */
const minorOf = (text: string): string => /^(?:stable-|latest-|v)?(1\.[0-9]+)(?:[.+-]|$)/.exec(text)?.[1] ?? text;

function ignoredFact({ place, of }: Fact, why: string): Problem {
  const hint = 'Set it in sluice.yaml';
  return { code: 'CONFIG_IGNORED', level: 'warning', at: place, message: `Cannot follow ${of}: ${why}`, hint };
}

function twoFacts(before: Fact, { text, place, of }: Fact): Problem {
  const there = `${before.of} is ${printable(before.text)} at ${before.place.file}:${before.place.line}`;
  const message = `Cannot use ${of}: it is ${printable(text)} here, and ${there}`;
  return { code: 'CONFIG_INVALID', level: 'error', at: place, message, hint: 'Pass the files of one cluster' };
}

/**
 * The settings with those that kubeadm adds: `kubernetesVersion` is that of kube-proxy, too, and a draft without `clusterCIDR` gets
 * `podSubnet` (`cmd/kubeadm/app/componentconfigs/kubeproxy.go`). A configuration that runs has all of kubeadm's values already.
 */
function completed(first: Checked | undefined, facts: Partial<Record<FactName, Fact>>, problems: Problem[]): Settings {
  const settings = new Map(first?.settings);
  const { version, podSubnet } = facts;
  const add = (name: SettingName, fact: Fact, value: Json): void => {
    settings.set(name, { value, spelled: fact.text, place: fact.place, path: fact.of.split(' ')[0]?.split('.') ?? [] });
  };
  if (version !== undefined) add('kubeProxyVersion', version, minorOf(version.text));
  if (podSubnet === undefined || first?.config.isDraft === false) return settings;
  const networks = podSubnet.text.split(',').map((cidr) => canonicalCidr(cidr.trim()) ?? cidr);
  const written = settings.get('clusterCIDR');
  if (written === undefined) add('clusterCIDR', podSubnet, networks);
  else if (JSON.stringify(written.value) !== JSON.stringify(networks))
    problems.push(ignoredFact(podSubnet, `clusterCIDR of KubeProxyConfiguration is ${written.spelled}`));
  return settings;
}

/** JSON with sorted keys, to compare without their order. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    isMap(item) ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => compareText(a, b))) : item,
  );
}

function check({ value, origin, object }: ProxyConfig): Omit<Checked, 'config'> {
  const findings = checkSchema(kubeProxySchema, value, { nullIsUnset: true });
  const short = modes.filter((section) => isPeriodShort(value, section));
  const wrong = findings.filter(({ kind }) => kind !== 'missing').map(({ path }) => path);
  const passedOver = [...wrong, ...short.map((section) => [section, 'minSyncPeriod'])];
  // kube-proxy decodes leniently when strict decoding fails: an unknown field is logged and ignored.
  const levelOf = ({ kind }: SchemaFinding): Level => (kind === 'unknown' ? 'warning' : 'error');
  const problems = [
    ...findings.map((finding) => findingProblem(finding, origin, object, levelOf(finding))),
    ...repeatedWords(value, origin, object),
    ...short.map((section) => shortPeriod(value, origin, object, section)),
    ...unfollowedFields(value, origin, object, passedOver),
  ];
  return { settings: settingsOf(value, origin, [], wrong, isUnset), problems };
}

/** `null`, `""` and `[]` are Go's values of unset fields. */
function isUnset(value: Json): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A word must not be repeated in `nodePortAddresses` (`validateKubeProxyNodePortAddress`). One problem per word, at its second place. */
function repeatedWords(value: JsonObject, origin: TextOrigin, object: string): readonly Problem[] {
  const list: Json | undefined = value['nodePortAddresses'];
  if (!Array.isArray(list)) return [];
  return nodePortWords.flatMap((word) => {
    const second = list.indexOf(word, list.indexOf(word) + 1);
    if (second <= list.indexOf(word)) return [];
    const path = ['nodePortAddresses', second];
    return [configProblem(origin.place(path), object, path, `${word} is listed twice`, 'Remove one of them')];
  });
}

/** In seconds; 0 means unset. */
function periodsOf(value: JsonObject, section: string): { readonly sync: number; readonly min: number } {
  const seconds = (key: string): number => {
    const text = childOf(value[section], key);
    return (typeof text === 'string' && parseGoDuration(text)) || 0;
  };
  return { sync: seconds('syncPeriod') || 30, min: seconds('minSyncPeriod') };
}

/** syncPeriod defaults to 30s, and minSyncPeriod must not be longer (`validateProxyIPTablesConfiguration` and similar). */
function isPeriodShort(value: JsonObject, section: string): boolean {
  const { sync, min } = periodsOf(value, section);
  return sync >= 0 && min > sync;
}

function shortPeriod(value: JsonObject, origin: TextOrigin, object: string, section: string): Problem {
  const path = [section, 'minSyncPeriod'];
  const why = `it is longer than syncPeriod (${periodsOf(value, section).sync}s)`;
  return configProblem(origin.place(path), object, path, why, 'Make minSyncPeriod at most as long as syncPeriod');
}

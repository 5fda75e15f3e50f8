import { addAll, type Place, type Problem } from '@sluice/netfilter';
import {
  isMap,
  type Json,
  type JsonObject,
  listOf,
  mapOf,
  type Origin,
  type Path,
  textOf,
} from '../../render/model/kube.ts';
import { splitDocuments } from '../parse/documents.ts';
import { type Flag, flagOf, flagsOf, readFlags, type Word } from './kube-proxy-flags.ts';
import { isK3sNode, k3sOfNodes } from './k3s-nodes.ts';
import { configProblem, ignoredProblem } from './problems.ts';
import { childOf } from './settings.ts';
import { type Locate, readText, type TextOrigin } from './text.ts';

/**
 * An object that says how kube-proxy runs, recognised by its content: a KubeProxyConfiguration, alone or in any value of a ConfigMap; kubeadm's
 * ClusterConfiguration, alone or in a ConfigMap; the config file of k3s and RKE2, or a Node of theirs; a DaemonSet or Pod
 * that runs kube-proxy with flags.
 */
export interface KubeProxyInput {
  readonly value: JsonObject;
  readonly origin: Origin;
  /** The text of the file of the origin; needed for exact places inside the ConfigMap's text. */
  readonly text?: string;
}

/** A KubeProxyConfiguration. */
export interface ProxyConfig {
  readonly value: JsonObject;
  readonly origin: TextOrigin;
  /** Its name in problems. */
  readonly object: string;
  /** kubeadm has yet to complete it, so that its ClusterConfiguration counts. */
  readonly isDraft: boolean;
}

/** One fact of a cluster, as written. */
export interface Fact {
  readonly text: string;
  readonly place: Place;
  /** `networking.podSubnet of ClusterConfiguration` */
  readonly of: string;
}

export type FactName = 'version' | 'podSubnet' | 'serviceCIDRs' | 'nodePortRange';

/** What is in one or more inputs. */
export interface ProxySources {
  readonly configs: readonly ProxyConfig[];
  readonly facts: readonly (readonly [FactName, Fact])[];
  readonly problems: readonly Problem[];
}

const nothing: ProxySources = { configs: [], facts: [], problems: [] };

/** Whether an object is an input of `readSources`. @param group of its apiVersion; empty for the core group, and without one */
export function isKubeProxyInput(value: JsonObject, kind: string | undefined, group: string): boolean {
  if (kind === undefined) return Object.keys(value).some((key) => k3sKeys.has(key.replace(/\+$/, '')));
  switch (`${kind}.${group}`) {
    case 'KubeProxyConfiguration.kubeproxy.config.k8s.io':
    case 'ClusterConfiguration.kubeadm.k8s.io':
    case 'InitConfiguration.kubeadm.k8s.io':
      return true;
    case 'ConfigMap.':
      return entriesOf(value).some(({ text }) => isMentioned(text));
    case 'Node.':
      return isK3sNode(value);
    case 'DaemonSet.apps':
    case 'Pod.': {
      const flags = flagsOfWorkload(value, { place: () => nowhere });
      return flags.length > 0 && !flags.some(({ name }) => name === 'config');
    }
    default:
      return false;
  }
}

const nowhere: Place = { file: '', line: 1, column: 1 };

/** Reads what all inputs say. */
export function readSources(inputs: readonly KubeProxyInput[]): ProxySources {
  const isK3s = ({ value }: KubeProxyInput): boolean => value['kind'] === undefined;
  const isNode = ({ value }: KubeProxyInput): boolean => value['kind'] === 'Node';
  const parts = inputs.filter((input) => !isK3s(input) && !isNode(input)).map(readSource);
  const k3s = inputs.filter(isK3s);
  if (k3s.length > 0) parts.push(readK3s(k3s));
  // Nodes are needed for other reasons, too: what is passed besides says more.
  const { config, problems: ofNodes } = parts.length > 0 ? { problems: [] } : k3sOfNodes(inputs.filter(isNode));
  if (config) parts.push(readK3s([config]));
  return joined([...parts, { ...nothing, problems: ofNodes }]);
}

const joined = (parts: readonly ProxySources[]): ProxySources => ({
  configs: parts.flatMap(({ configs }) => configs),
  facts: parts.flatMap(({ facts }) => facts),
  problems: parts.flatMap(({ problems }) => problems),
});

function readSource(input: KubeProxyInput): ProxySources {
  const { value, origin } = input;
  switch (textOf(value['kind'])) {
    case 'ConfigMap':
      return readConfigMap(input);
    case 'ClusterConfiguration':
      return { ...nothing, facts: factsOfKubeadm(value, origin) };
    case 'InitConfiguration':
      return nothing;
    case 'DaemonSet':
    case 'Pod': {
      const object = nameOf(value);
      const { problems, ...config } = readFlags(flagsOfWorkload(value, origin), origin.place([]), object);
      return { ...nothing, configs: [{ ...config, object, isDraft: false }], problems };
    }
    default: {
      const place = (path: Path): Place => origin.place(path);
      return { ...nothing, configs: [{ value, origin: { place, keyPlace: place }, object: proxyKind, isDraft: true }] };
    }
  }
}

const proxyKind = 'KubeProxyConfiguration';
const kubeadmKind = 'ClusterConfiguration';

/** `ConfigMap kube-system/kube-proxy` */
function nameOf(value: JsonObject): string {
  const { namespace, name } = mapOf(value['metadata']);
  const prefix = textOf(namespace) === '' ? '' : `${textOf(namespace)}/`;
  return `${textOf(value['kind'])} ${prefix}${textOf(name)}`.trim();
}

/** Whether a value of a ConfigMap may hold a configuration of kube-proxy or kubeadm. */
const isMentioned = (text: string): boolean =>
  text.includes(proxyKind) || (text.includes('kubeadm.k8s.io/') && text.includes(kubeadmKind));

/** A document that is meant as a configuration, although it cannot be parsed. */
const isMeant =
  /^["']?(?:kind["']?[ \t]*:[ \t]*["']?KubeProxyConfiguration|apiVersion["']?[ \t]*:[ \t]*["']?kubeproxy\.config\.k8s\.io)/m;

interface Entry {
  readonly path: Path;
  readonly text: string;
}

/** The texts of a ConfigMap, those of `binaryData` too. */
function entriesOf(configMap: JsonObject): readonly Entry[] {
  const texts = (field: string, decode: (text: string) => string): Entry[] =>
    Object.entries(mapOf(configMap[field])).flatMap(([key, text]) =>
      typeof text === 'string' ? [{ path: [field, key], text: decode(text) }] : [],
    );
  return [
    ...texts('data', (text) => text),
    ...texts('binaryData', (text) => Buffer.from(text, 'base64').toString('utf8')),
  ];
}

const readConfigMap = (input: KubeProxyInput): ProxySources =>
  joined(
    entriesOf(input.value)
      .filter(({ text }) => isMentioned(text))
      .map((entry) => readEntry(input, entry)),
  );

/** Every document of one value of a ConfigMap. */
function readEntry(input: KubeProxyInput, { path, text }: Entry): ProxySources {
  const object = nameOf(input.value);
  const place = input.origin.place(path);
  const inside = path[0] === 'data' ? locateInside(place, input.text) : () => place;
  const configs: ProxyConfig[] = [];
  const facts: [FactName, Fact][] = [];
  const problems: Problem[] = [];
  for (const { line, text: part } of splitDocuments(place.file, text)) {
    const read = readText(place.file, part, (below, column) => inside(line - 1 + below, column));
    const kind = childOf(read.value, 'kind');
    if (read.value === undefined && isMeant.test(part)) addAll(problems, read.problems);
    else if (isMap(read.value) && kind === proxyKind)
      configs.push({ value: read.value, origin: read.origin, object: proxyKind, isDraft: false });
    else if (isMap(read.value) && kind === kubeadmKind) addAll(facts, factsOfKubeadm(read.value, read.origin));
  }
  if (configs.length + facts.length + problems.length === 0 && text.includes(proxyKind)) {
    const why = `it names ${proxyKind}, but no document in it is one`;
    problems.push(ignoredProblem(place, object, [path], why, 'Pass the configuration of kube-proxy, or remove it'));
  }
  return { configs, facts, problems };
}

/** The fields of kubeadm's ClusterConfiguration (v1beta1 to v1beta4) that say how kube-proxy and the API server run. */
function factsOfKubeadm(value: JsonObject, origin: Origin): readonly [FactName, Fact][] {
  const found: [FactName, Fact][] = [];
  const add = (name: FactName, text: Json | undefined, path: Path, field = path.join('.')): void => {
    if (typeof text === 'string' && text !== '')
      found.push([name, { text, place: origin.place(path), of: `${field} of ${kubeadmKind}` }]);
  };
  const networking = value['networking'];
  add('version', value['kubernetesVersion'], ['kubernetesVersion']);
  add('podSubnet', childOf(networking, 'podSubnet'), ['networking', 'podSubnet']);
  add('serviceCIDRs', childOf(networking, 'serviceSubnet'), ['networking', 'serviceSubnet']);
  const argsPath = ['apiServer', 'extraArgs'];
  const args = childOf(value['apiServer'], 'extraArgs');
  // A map up to v1beta3, a list of names and values in v1beta4.
  if (isMap(args)) add('nodePortRange', args[rangeFlag], [...argsPath, rangeFlag]);
  for (const [index, arg] of listOf(args).entries())
    if (childOf(arg, 'name') === rangeFlag)
      add('nodePortRange', childOf(arg, 'value'), [...argsPath, index, 'value'], `apiServer.extraArgs.${rangeFlag}`);
  return found;
}

/** The flag of the API server. */
const rangeFlag = 'service-node-port-range';

/** The keys of k3s' and RKE2's config files that concern kube-proxy or the API server; each is a flag of theirs. */
const k3sKeys: ReadonlySet<string> = new Set([
  'kube-proxy-arg',
  'cluster-cidr',
  'service-cidr',
  rangeFlag,
  'disable-kube-proxy',
]);

/** What k3s and RKE2 pass to kube-proxy themselves (`pkg/agent/proxy` and `pkg/daemons/agent` of k3s), with their default of pods. */
const k3sFlags = [
  'proxy-mode=iptables',
  'conntrack-max-per-core=0',
  'conntrack-tcp-timeout-established=0s',
  'conntrack-tcp-timeout-close-wait=0s',
] as const;
const k3sPods = '10.42.0.0/16';
const k3sServices = '10.43.0.0/16';

/**
 * Reads the config files of k3s or RKE2 together: a file in config.yaml.d completes config.yaml, and a key with `+` adds to its list. Two
 * files that set one key differently are a problem.
 */
function readK3s(inputs: readonly KubeProxyInput[]): ProxySources {
  const object = 'config of k3s';
  const start = (inputs[0] as KubeProxyInput).origin.place([]);
  const problems: Problem[] = [];
  const known = new Map<string, readonly Word[]>();
  for (const { value, origin } of inputs)
    for (const [key, content] of Object.entries(value)) {
      const name = key.replace(/\+$/, '');
      if (!k3sKeys.has(name) && name !== 'kube-apiserver-arg' && name !== 'server') continue;
      const words = wordsOf(content, [key], origin);
      const before = known.get(name);
      if (before === undefined || key.endsWith('+')) known.set(name, [...(before ?? []), ...words]);
      else if (textsOf(before) !== textsOf(words)) {
        const at = before[0]?.place ?? start;
        const why = `it differs from the one at ${at.file}:${at.line}`;
        const hint = 'Pass the files of one server';
        problems.push(configProblem(origin.place([key]), object, [key], why, hint));
      }
    }
  const listed = (name: string): string | undefined => {
    const words = known.get(name) ?? [];
    return words.length === 0 ? undefined : textsOf(words);
  };
  const placeOf = (name: string): Place => known.get(name)?.[0]?.place ?? start;
  // A server that joins another one has the networks of that one.
  const isFirst = !known.has('server');
  const pods = listed('cluster-cidr') ?? (isFirst ? k3sPods : undefined);
  const services = listed('service-cidr') ?? (isFirst ? k3sServices : undefined);
  const args = (known.get('kube-proxy-arg') ?? []).map(flagOf);
  const own = k3sFlags.map((text): Flag => flagOf({ text, place: start }));
  const network = pods === undefined ? [] : [{ name: 'cluster-cidr', value: pods, place: placeOf('cluster-cidr') }];
  const read = readFlags([...own, ...network, ...args], start, object);
  addAll(problems, read.problems);
  if (read.file !== undefined) {
    const why = 'kube-proxy reads that file, and no other flag';
    problems.push(ignoredProblem(read.file.place, object, [['--config']], why, 'Pass that file instead'));
  }
  const range = listed(rangeFlag) ?? rangeOfApiServer(known.get('kube-apiserver-arg') ?? []);
  const fact = (name: FactName, key: string, text: string | undefined): [FactName, Fact][] =>
    text === undefined ? [] : [[name, { text, place: placeOf(key), of: `${key} of the ${object}` }]];
  return {
    configs: read.file === undefined ? [{ value: read.value, origin: read.origin, object, isDraft: false }] : [],
    facts: [...fact('serviceCIDRs', 'service-cidr', services), ...fact('nodePortRange', rangeFlag, range)],
    problems,
  };
}

const rangeOfApiServer = (args: readonly Word[]): string | undefined =>
  args.map(flagOf).findLast(({ name }) => name === rangeFlag)?.value;

/** A text, a number, a switch, or a list of these. */
function wordsOf(content: Json, path: Path, origin: Origin): readonly Word[] {
  if (Array.isArray(content))
    return (content as readonly Json[]).flatMap((item, index) => wordsOf(item, [...path, index], origin));
  if (content === null || typeof content === 'object') return [];
  return [{ text: String(content), place: origin.place(path) }];
}

const textsOf = (words: readonly Word[]): string => words.map(({ text }) => text).join(',');

/** The flags of the containers of a DaemonSet or Pod that run kube-proxy, without one that only cleans up. */
function flagsOfWorkload(value: JsonObject, origin: Origin): readonly Flag[] {
  const base: Path = value['kind'] === 'Pod' ? ['spec'] : ['spec', 'template', 'spec'];
  const spec = base.reduce<Json | undefined>((at, key) => childOf(at, key as string), value);
  const lines = listOf(childOf(spec, 'containers')).map((container, index) => {
    const words = ['command', 'args'].flatMap((field) =>
      wordsOf(childOf(container, field) ?? null, [...base, 'containers', index, field], origin),
    );
    return commandOf(words, /(?:^|\/)kube-proxy(?:-[a-z0-9]+)?(?:[:@]|$)/.test(textOf(childOf(container, 'image'))));
  });
  return lines.find((flags) => flags.length > 0 && !flags.some(({ name }) => passing.has(name))) ?? [];
}

/** Flags of a kube-proxy that does not stay. */
const passing: ReadonlySet<string> = new Set(['cleanup', 'cleanup-and-exit', 'init-only', 'write-config-to']);

/** The flags behind `kube-proxy` in a command line; of a shell, in its text up to the first redirection. */
function commandOf(words: readonly Word[], isImage: boolean): readonly Flag[] {
  const isProgram = ({ text }: Word): boolean => /(?:^|\/)kube-proxy$/.test(text);
  const program = words.findIndex(isProgram);
  if (program >= 0) return flagsOf(words.slice(program + 1));
  const shell = words.find(({ text }) => /(?:^|[\s/])kube-proxy\s/.test(text));
  if (shell === undefined) return isImage ? flagsOf(words) : [];
  const parts = shell.text.slice(shell.text.search(/kube-proxy\s/)).split(/\s+/);
  const end = parts.findIndex((part) => /[<>|&;]/.test(part));
  const own = end < 0 ? parts : parts.slice(0, end);
  return flagsOf(own.map((part) => ({ text: part.replaceAll(/["']/g, ''), place: shell.place })));
}

/**
 * Maps positions inside a string of a YAML file to positions in that file.
 * Exact for a literal block scalar (`config.conf: |`), the usual form of a file inside a ConfigMap. For other strings, such as a quoted
 * one with `\n`, it returns the place of the string.
 * @param place of the string's value: the `|`
 * @param text of the whole file; without it every result is `place`
 */
function locateInside(place: Place, text: string | undefined): Locate {
  const here: Locate = () => place;
  const lines = text?.split(/\r\n|\n/) ?? [];
  const header = /^\|([1-9]?)[-+]?([1-9]?)[-+]?\s*(?:#.*)?$/.exec(
    (lines[place.line - 1] ?? '').slice(place.column - 1),
  );
  if (!header) return here;
  const first = lines.slice(place.line).find((line) => line.trim() !== '');
  const indent = /^ */.exec(first ?? '')?.[0].length ?? 0;
  // An indentation indicator counts from the parent's indentation, which the lines alone do not show.
  if (header[1] !== '' || header[2] !== '') return here;
  return (line, column) => ({ file: place.file, line: place.line + line, column: column + indent });
}

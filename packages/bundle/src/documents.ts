import { type Document, LineCounter, parseDocument } from 'yaml';
import {
  allOf,
  badKey,
  type Checked,
  type CheckedMap,
  checkOf,
  type Checks,
  isFlag,
  isMap,
  oneOf,
  optional,
  parsedJson,
  shape,
} from './checks.ts';
import { families, type Place, type Problem, modes, parseCidr, refusal, schedulers } from '@sluice/netfilter';
import { areValues } from './variables.ts';

type Value = string | number | readonly string[];
/** Values of variables: common ones, and those of a family below its name. */
export type VariableValues = Readonly<Record<string, Value | Readonly<Record<string, Value>>>>;

/** Versions of the bundle format that this code reads and writes. */
export const bundleFormats = [1] as const;

/** The item of `nodePortAddresses` for the node's own address. */
export const ownAddress = 'primary';

/** Capabilities that a profile requires of a node, with the option to change where one is missing. */
export const needs = {
  'random-fully': {
    what: 'iptables 1.6.2 or newer, for MASQUERADE --random-fully',
    option: 'set `iptables.randomFully: false` in the profile',
  },
} as const;
export type Need = keyof typeof needs;

const text = checkOf<string>((value) => typeof value === 'string' && value !== '');
const networks = checkOf<readonly string[]>(
  (value) => Array.isArray(value) && value.every((item) => typeof item === 'string' && parseCidr(item) !== undefined),
);
const someFamilies = allOf(...families);

const clusterChecks = {
  format: oneOf(...bundleFormats),
  name: text,
  complete: isFlag,
  serviceCIDRs: networks,
};
/** `cluster.yaml`. */
export type ClusterFile = CheckedMap<typeof clusterChecks>;

const ipvsOptions = shape({
  /** The default of virtual servers. Informational: each line of the bundle names its own. */
  scheduler: oneOf(...schedulers),
  /** Virtual servers with addresses in one of these are foreign. */
  excludeCIDRs: networks,
  /** Informational: its sysctls are in `sysctl.conf`. */
  strictARP: isFlag,
});
/** The options of a profile in mode ipvs. */
export type IpvsOptions = Checked<typeof ipvsOptions>;

/** `primary` is valid only beside networks: alone, rules have `${node.address}`. */
const nodePortList = checkOf<readonly string[]>((value) => {
  if (networks(value)) return true;
  const others = Array.isArray(value) ? value.filter((item) => item !== ownAddress) : [];
  return Array.isArray(value) && others.length > 0 && others.length === value.length - 1 && networks(others);
});

const profileChecks = {
  mode: oneOf(...modes),
  /** In mode ipvs. */
  ipvs: optional(ipvsOptions),
  // Without a family a node would lose all of its rules.
  families: checkOf<Checked<typeof someFamilies>>((value) => someFamilies(value) && value.length > 0),
  needs: allOf(...(Object.keys(needs) as Need[])),
  /** CIDRs, optionally with `ownAddress`. */
  nodePortAddresses: nodePortList,
  values: checkOf<VariableValues>((value) => areValues('profile', value)),
};
/** `profile.yaml`. */
export type ProfileFile = CheckedMap<typeof profileChecks>;

const nodeChecks = {
  profile: text,
  zone: optional(text),
  values: checkOf<VariableValues>((value) => areValues('node', value)),
};
/** `node.yaml`. */
export type NodeFile = CheckedMap<typeof nodeChecks>;

/** Reads `cluster.yaml`. @param path for the problem's place; an unknown key or a wrong type is one (`BUNDLE_INVALID`) */
export const readCluster = (path: string, body: string): ClusterFile | Problem =>
  readDocument(path, body, 'Cluster', clusterChecks);

/** Reads `profile.yaml` of a profile, as `readCluster` does. */
export function readProfile(path: string, body: string): ProfileFile | Problem {
  const profile = readDocument(path, body, 'Profile', profileChecks);
  if (isProblem(profile) || (profile.mode === 'ipvs') === (profile.ipvs !== undefined)) return profile;
  return invalid(
    { file: path, line: 1, column: 1 },
    'the key ipvs is required in mode ipvs, and not allowed in any other',
  );
}

/** Reads `node.yaml` of a node, as `readCluster` does. */
export const readNode = (path: string, body: string): NodeFile | Problem =>
  readDocument(path, body, 'Node', nodeChecks);

/** Distinguishes the results of `readCluster`, `readProfile` and `readNode`. */
export function isProblem(value: object): value is Problem {
  return 'code' in value && 'level' in value;
}

const apiVersion = 'sluice.dev/v1alpha1';

const headChecks = (kind: string): Checks => ({ apiVersion: oneOf(apiVersion), kind: oneOf(kind) });

/** Reads a YAML file of the format. Unknown keys, wrong types and other versions are a problem with line and column. */
export function readDocument<C extends Checks>(
  path: string,
  body: string,
  kind: string,
  checks: C,
): CheckedMap<C> | Problem {
  const lineCounter = new LineCounter();
  const document = parseDocument(body, { lineCounter, prettyErrors: false });
  const place = (offset: number): Place => {
    const { line, col } = lineCounter.linePos(offset);
    return { file: path, line, column: col };
  };
  const syntax = document.errors[0];
  if (syntax) return invalid(place(syntax.pos[0]), syntax.message);
  const value = plainValue(document);
  if (!isMap(value)) return invalid(place(0), 'it is not a mapping, or it contains aliases');
  const all: Checks = { ...headChecks(kind), ...checks };
  const at = (key: string): Place =>
    place((document.get(key, true) as { range?: readonly number[] } | undefined)?.range?.[0] ?? 0);
  const bad = badKey(value, all);
  if (bad !== undefined && !Object.hasOwn(all, bad))
    return invalid(at(bad), `${kind} has no key ${JSON.stringify(bad)} in this format`);
  if (bad !== undefined)
    return invalid(at(bad), `${bad} is ${Object.hasOwn(value, bad) ? JSON.stringify(value[bad]) : 'missing'}`);
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = value;
  return rest as unknown as CheckedMap<C>;
}

/**
 * Reads a text of JSON that has `apiVersion`, `kind`, and these keys.
 * @returns its keys without `apiVersion` and `kind`, or why it is none, in words that quote no value of it
 */
export function readJson<C extends Checks>(json: string, kind: string, checks: C): CheckedMap<C> | string {
  const value = parsedJson(json);
  if (!isMap(value)) return 'it is not a JSON object';
  const all: Checks = { ...headChecks(kind), ...checks };
  const bad = badKey(value, all);
  if (bad !== undefined && !Object.hasOwn(all, bad))
    return `${kind} has no key "${bad.slice(0, 60).replaceAll(/[^\w-]/g, '?')}" in this format`;
  if (bad !== undefined) return `${bad} is ${Object.hasOwn(value, bad) ? 'not valid' : 'missing'}`;
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = value;
  return rest as unknown as CheckedMap<C>;
}

/**
 * Prints what `readJson` reads, in one form: equal values give equal bytes.
 * @param keys of it and of all maps in it, in their order
 */
export const printJson = (kind: string, value: object, keys: readonly string[]): string =>
  `${JSON.stringify({ apiVersion, kind, ...value }, ['apiVersion', 'kind', ...keys], 2)}\n`;

/** Rejects aliases: Sluice writes none, and expanding untrusted ones could take all memory. */
function plainValue(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 });
  } catch {
    return undefined;
  }
}

const invalid = (at: Place, why: string): Problem =>
  refusal(
    'BUNDLE_INVALID',
    `Cannot read ${at.file}: ${why}`,
    'If a newer version of sluice wrote it, upgrade sluiced first; if not, write it again with `sluice render`',
    { at },
  );

/**
 * The Services of `quarantine.yaml`, as `sluice` writes it; other lines say nothing here.
 * @returns by `shop/web`, the codes of their problems
 */
export function readQuarantine(yaml: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let codes: string[] = [];
  for (const line of yaml.split('\n')) {
    const object = /^ {2}- object: (.*)$/.exec(line)?.[1];
    const code = /^ {6}- code: ([A-Z][A-Z0-9_]{0,62})$/.exec(line)?.[1];
    if (object !== undefined) {
      codes = [];
      const service = /^Service ([a-z0-9][-a-z0-9]{0,62}\/[a-z0-9][-a-z0-9]{0,62})$/.exec(object)?.[1];
      if (service !== undefined) found.set(service, codes);
    } else if (code !== undefined) codes.push(code);
  }
  return found;
}

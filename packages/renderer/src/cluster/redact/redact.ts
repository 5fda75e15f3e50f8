import { createHash } from 'node:crypto';
import { parseAllDocuments, stringify } from 'yaml';
import { isMap, type Json, type JsonObject } from '../../render/model/kube.ts';
import { kubeProxyConfigMaps } from '../kinds.ts';
import { printSnapshot, type Snapshot } from '../snapshot.ts';
import { AddressReplacer } from './address.ts';
import { NameReplacer, type Sort, sorts } from './names.ts';
import { knownLabels, kubeProxyShape, type Leaf, type Shape, shapes } from './shape.ts';

/** Replaces addresses and names. */
export interface Replacements {
  readonly address: (text: string) => string;
  readonly name: (sort: Sort, text: string) => string;
}

/**
 * Replaces names and addresses of a cluster consistently: networks contain the same addresses, and sorting by name is preserved, so the
 * rules are the same except for names, addresses and the order of endpoints. Ports, protocols, policies, timestamps and numbers of cores
 * are kept; fields without effect on rules are left out.
 * @returns the same result for the same snapshot; the key is a digest of the snapshot, so it cannot be undone without it
 */
export function redact(snapshot: Snapshot): Snapshot {
  return redacted(snapshot, replacementsFor(snapshot));
}

/** The replacements of `redact` for a snapshot. */
export function replacementsFor(snapshot: Snapshot): Replacements {
  const key = createHash('sha256')
    .update(printSnapshot({ ...snapshot, header: {} }))
    .digest();
  const addresses = new AddressReplacer(key);
  const names = new NameReplacer();
  const replacements = (name: Replacements['name']): Replacements => ({
    name,
    address: (text) => (isWord(text) ? text : (addresses.of(text) ?? name('host', text))),
  });
  const entering = replacements((sort, text) => {
    names.enter(sort, text);
    return text;
  });
  redacted(snapshot, entering);
  names.number();
  return replacements((sort, text) => names.of(sort, text));
}

/** Values of address fields that are not addresses: empty, headless, the words of `nodePortAddresses`. */
const isWord = (text: string): boolean => ['', 'None', 'primary', 'localhost', 'all'].includes(text);

function redacted(snapshot: Snapshot, replacements: Replacements): Snapshot {
  const parts = [...snapshot.parts].map(([resource, objects]) => {
    const shape = shapes[resource];
    if (shape === undefined) throw new Error(`${resource} has no shape`);
    return [resource, objects.map((object) => shaped(object, shape, replacements) as JsonObject)] as const;
  });
  return { ...snapshot, header: redactedHeader(snapshot.header, replacements), parts: new Map(parts) };
}

function redactedHeader(header: JsonObject, replacements: Replacements): JsonObject {
  const { asked, resourceVersions, ...rest } = header;
  const namespaces = isMap(asked) && Array.isArray(asked['namespaces']) ? (asked['namespaces'] as string[]) : [];
  const hasSelector = isMap(asked) && asked['selector'] !== undefined;
  const versions = Object.entries(isMap(resourceVersions) ? resourceVersions : {}).map(([key, version]) => {
    const [resource = '', namespace] = key.split('/');
    return [
      namespace === undefined ? resource : `${resource}/${replacements.name('namespace', namespace)}`,
      version,
    ] as const;
  });
  return {
    ...rest,
    redacted: true,
    asked: {
      namespaces: namespaces.map((namespace) => replacements.name('namespace', namespace)),
      ...(hasSelector ? { selector: 'left out' } : {}),
    },
    resourceVersions: Object.fromEntries(versions),
  };
}

/** @returns undefined for a value that is left out */
function shaped(value: Json, shape: Shape, replacements: Replacements): Json | undefined {
  if (Array.isArray(value)) {
    return (value as readonly Json[]).flatMap((item) => shaped(item, shape, replacements) ?? []);
  }
  if (typeof shape === 'string') return ofLeaf(value, shape, replacements);
  if (!isMap(value)) return undefined;
  const fields = Object.entries(value).flatMap(([key, field]) => {
    const inner = Object.hasOwn(shape, key) ? shape[key] : undefined;
    const changed = inner === undefined ? undefined : shaped(field, inner, replacements);
    return changed === undefined ? [] : [[key, changed] as const];
  });
  return Object.fromEntries(fields);
}

function ofLeaf(value: Json, leaf: Leaf, replacements: Replacements): Json | undefined {
  if (leaf === 'configs') return isMap(value) ? ofConfigs(value, replacements) : undefined;
  if (leaf === 'labels') return isMap(value) ? ofLabels(value, replacements) : undefined;
  if (value === null || isMap(value) || Array.isArray(value)) return undefined;
  if (leaf === 'keep' || (leaf === 'target' && typeof value === 'number')) return value;
  if (typeof value !== 'string') return undefined;
  if (isSort(leaf)) return value === '' || kept[leaf]?.has(value) ? value : replacements.name(leaf, value);
  switch (leaf) {
    case 'address':
      return value
        .split(',')
        .map((text) => replacements.address(text.trim()))
        .join(',');
    case 'target':
      return value === '' ? '' : replacements.name('port', value);
    case 'weights':
      return value
        .split(',')
        .map((text) => ofWeight(text.trim(), replacements))
        .join(',');
    case 'hints':
      return ['', 'disabled', 'Disabled'].includes(value) ? value : 'Auto';
    default:
      return undefined;
  }
}

/** The ServiceCIDR that every cluster has, and the ConfigMaps and keys of kubeadm and EKS. */
const kept: Readonly<Partial<Record<Sort, ReadonlySet<string>>>> = {
  range: new Set(['kubernetes']),
  config: new Set([...kubeProxyConfigMaps.names, 'config.conf', 'config']),
};

/** A text without a configuration that can be parsed is left out. */
function ofConfigs(texts: JsonObject, replacements: Replacements): JsonObject {
  const entries = Object.entries(texts).flatMap(([key, text]) => {
    const changed = typeof text === 'string' ? ofConfig(text, replacements) : undefined;
    return changed === undefined ? [] : [[ofLeaf(key, 'config', replacements) as string, changed] as const];
  });
  return Object.fromEntries(entries);
}

/** Of several documents only the configuration of kube-proxy is kept. */
function ofConfig(text: string, replacements: Replacements): string | undefined {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents) || documents.some(({ errors }) => errors.length > 0)) return undefined;
  const values = documents.map((document) => document.toJS() as Json);
  const found = values.find((value) => isMap(value) && value['kind'] === 'KubeProxyConfiguration');
  if (found === undefined) return undefined;
  return stringify(shaped(found, kubeProxyShape, replacements) ?? {}, { lineWidth: 0 });
}

function isSort(leaf: Leaf): leaf is Sort {
  return (sorts as readonly string[]).includes(leaf);
}

function ofLabels(labels: JsonObject, replacements: Replacements): JsonObject {
  const entries = Object.entries(labels).map(
    ([key, value]) => [otherKey(key, replacements), ofLabel(key, value, replacements)] as const,
  );
  return Object.fromEntries(entries.filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

const otherKey = (key: string, replacements: Replacements): string =>
  Object.hasOwn(knownLabels, key) ? key : replacements.name('label', key);

function ofLabel(key: string, value: Json, replacements: Replacements): Json | undefined {
  return ofLeaf(value, Object.hasOwn(knownLabels, key) ? (knownLabels[key] ?? 'value') : 'value', replacements);
}

/** `label=value:3`; another text is replaced as a whole and remains invalid. */
function ofWeight(text: string, replacements: Replacements): string {
  const [, key, value, weight] = /^([^=:]+)=([^=:]*):([0-9]+)$/.exec(text) ?? [];
  if (key === undefined || value === undefined) return replacements.name('value', text);
  const other = ofLabel(key, value, replacements);
  return `${otherKey(key, replacements)}=${typeof other === 'string' ? other : ''}:${weight}`;
}

import { createHash } from 'node:crypto';
import { parseAllDocuments, stringify } from 'yaml';
import type { Json, JsonObject } from '../../render/kube.ts';
import { isMap } from '../json.ts';
import { printSnapshot, type Snapshot } from '../snapshot.ts';
import { OtherAddresses } from './address.ts';
import { OtherNames, type Sort, sorts } from './names.ts';
import { knownLabels, kubeProxyShape, type Leaf, type Shape, shapes } from './shape.ts';

/** Replaces addresses and names. */
export interface Others {
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
  return redacted(snapshot, othersFor(snapshot));
}

/** The replacements of `redact` for a snapshot. */
export function othersFor(snapshot: Snapshot): Others {
  const key = createHash('sha256')
    .update(printSnapshot({ ...snapshot, header: {} }))
    .digest();
  const addresses = new OtherAddresses(key);
  const names = new OtherNames();
  const others = (name: Others['name']): Others => ({
    name,
    address: (text) => (isWord(text) ? text : (addresses.of(text) ?? name('host', text))),
  });
  const entering = others((sort, text) => {
    names.enter(sort, text);
    return text;
  });
  redacted(snapshot, entering);
  names.number();
  return others((sort, text) => names.of(sort, text));
}

/** Values of address fields that are not addresses: empty, headless, the words of `nodePortAddresses`. */
const isWord = (text: string): boolean => ['', 'None', 'primary', 'localhost', 'all'].includes(text);

function redacted(snapshot: Snapshot, others: Others): Snapshot {
  const parts = [...snapshot.parts].map(([resource, objects]) => {
    const shape = shapes[resource];
    if (shape === undefined) throw new Error(`${resource} has no shape`);
    return [resource, objects.map((object) => shaped(object, shape, others) as JsonObject)] as const;
  });
  return { ...snapshot, header: redactedHeader(snapshot.header, others), parts: new Map(parts) };
}

function redactedHeader(header: JsonObject, others: Others): JsonObject {
  const { asked, resourceVersions, ...rest } = header;
  const namespaces = isMap(asked) && Array.isArray(asked['namespaces']) ? (asked['namespaces'] as string[]) : [];
  const hasSelector = isMap(asked) && asked['selector'] !== undefined;
  const versions = Object.entries(isMap(resourceVersions) ? resourceVersions : {}).map(([key, version]) => {
    const [resource = '', namespace] = key.split('/');
    return [
      namespace === undefined ? resource : `${resource}/${others.name('namespace', namespace)}`,
      version,
    ] as const;
  });
  return {
    ...rest,
    redacted: true,
    asked: {
      namespaces: namespaces.map((namespace) => others.name('namespace', namespace)),
      ...(hasSelector ? { selector: 'left out' } : {}),
    },
    resourceVersions: Object.fromEntries(versions),
  };
}

/** @returns undefined for a value that is left out */
function shaped(value: Json, shape: Shape, others: Others): Json | undefined {
  if (Array.isArray(value)) {
    return (value as readonly Json[]).flatMap((item) => shaped(item, shape, others) ?? []);
  }
  if (typeof shape === 'string') return ofLeaf(value, shape, others);
  if (!isMap(value)) return undefined;
  const fields = Object.entries(value).flatMap(([key, field]) => {
    const inner = Object.hasOwn(shape, key) ? shape[key] : undefined;
    const changed = inner === undefined ? undefined : shaped(field, inner, others);
    return changed === undefined ? [] : [[key, changed] as const];
  });
  return Object.fromEntries(fields);
}

function ofLeaf(value: Json, leaf: Leaf, others: Others): Json | undefined {
  if (leaf === 'labels') return isMap(value) ? ofLabels(value, others) : undefined;
  if (value === null || isMap(value) || Array.isArray(value)) return undefined;
  if (leaf === 'keep' || (leaf === 'target' && typeof value === 'number')) return value;
  if (typeof value !== 'string') return undefined;
  if (isSort(leaf)) return value === '' || (leaf === 'range' && value === apiRange) ? value : others.name(leaf, value);
  switch (leaf) {
    case 'address':
      return value
        .split(',')
        .map((text) => others.address(text.trim()))
        .join(',');
    case 'target':
      return value === '' ? '' : others.name('port', value);
    case 'weights':
      return value
        .split(',')
        .map((text) => ofWeight(text.trim(), others))
        .join(',');
    case 'hints':
      return ['', 'disabled', 'Disabled'].includes(value) ? value : 'Auto';
    case 'config':
      return ofConfig(value, others);
    default:
      return undefined;
  }
}

/** The ServiceCIDR that every cluster has. */
const apiRange = 'kubernetes';

/** A configuration that cannot be parsed is left out. */
function ofConfig(text: string, others: Others): string | undefined {
  const [document] = parseAllDocuments(text);
  if (!document || !('errors' in document) || document.errors.length > 0) return undefined;
  return stringify(shaped(document.toJS() as Json, kubeProxyShape, others) ?? {}, { lineWidth: 0 });
}

function isSort(leaf: Leaf): leaf is Sort {
  return (sorts as readonly string[]).includes(leaf);
}

function ofLabels(labels: JsonObject, others: Others): JsonObject {
  const entries = Object.entries(labels).map(
    ([key, value]) => [otherKey(key, others), ofLabel(key, value, others)] as const,
  );
  return Object.fromEntries(entries.filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

const otherKey = (key: string, others: Others): string =>
  Object.hasOwn(knownLabels, key) ? key : others.name('label', key);

function ofLabel(key: string, value: Json, others: Others): Json | undefined {
  return ofLeaf(value, Object.hasOwn(knownLabels, key) ? (knownLabels[key] ?? 'value') : 'value', others);
}

/** `label=value:3`; another text is replaced as a whole and remains invalid. */
function ofWeight(text: string, others: Others): string {
  const [, key, value, weight] = /^([^=:]+)=([^=:]*):([0-9]+)$/.exec(text) ?? [];
  if (key === undefined || value === undefined) return others.name('value', text);
  const other = ofLabel(key, value, others);
  return `${otherKey(key, others)}=${typeof other === 'string' ? other : ''}:${weight}`;
}

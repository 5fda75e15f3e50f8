import { nearest } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type KubeKind, type Path } from '../render/model/kube.ts';
import { isKubeProxyInput } from './config/kube-proxy-sources.ts';
import { childOf } from './config/settings.ts';
import { apiVersions } from '../render/read/names.ts';

/** One object of a document; lists are unwrapped. Paths start at the root of the document. */
export type FoundObject =
  | {
      readonly is: 'object';
      readonly kind: KubeKind;
      readonly apiVersion: string;
      readonly value: JsonObject;
      readonly path: Path;
    }
  /** What says how kube-proxy runs: a KubeProxyConfiguration, a ConfigMap, kubeadm's or k3s' configuration, a workload. */
  | { readonly is: 'kube-proxy'; readonly value: JsonObject; readonly path: Path }
  | { readonly is: 'sluice-config'; readonly path: Path }
  /** The header of a snapshot, which describes the objects beside it. */
  | { readonly is: 'snapshot'; readonly value: JsonObject; readonly path: Path }
  /** `near`: the kind that was probably meant; `setting`: what an installer makes the configuration of kube-proxy of. */
  | {
      readonly is: 'ignored';
      readonly kind: string;
      readonly near?: KubeKind;
      readonly setting?: Path;
      readonly path: Path;
    }
  | { readonly is: 'malformed'; readonly why: string; readonly path: Path }
  | {
      readonly is: 'unknown-version';
      readonly kind: string;
      readonly apiVersion: string;
      readonly reads: string;
      readonly path: Path;
    };

/** The API groups of the kinds that are read; in other groups, similar names are not misspellings. */
const ownGroups: ReadonlySet<string> = new Set(Object.values(apiVersions).flat().map(groupOf));

/** The type of all items of a list: items of a ServiceList from an API server have no kind. */
interface ListType {
  readonly kind: string;
  readonly apiVersion: string;
}

/** Finds the objects in the value of a document. An empty document (null) has none. */
export function findObjects(value: Json, path: Path = [], listType?: ListType): FoundObject[] {
  if (value === null) return [];
  if (!isMap(value)) return [{ is: 'malformed', why: 'it is not a map', path }];
  const kind = textOf(value, 'kind') ?? listType?.kind;
  const apiVersion = textOf(value, 'apiVersion') ?? listType?.apiVersion;
  // `sluice init` writes the schema beside the config, so it is in directories that are passed to -f.
  if (kind === undefined && textOf(value, '$schema') !== undefined) {
    return [{ is: 'ignored', kind: 'JSON Schema', path }];
  }
  if (kind === undefined && isKubeProxyInput(value, kind, '')) return [{ is: 'kube-proxy', value, path }];
  if (kind === undefined) return [{ is: 'malformed', why: 'it has no kind', path }];
  if (apiVersion === undefined) return [{ is: 'malformed', why: `the ${kind} has no apiVersion`, path }];
  const items = value['items'];
  if (isListKind(kind, apiVersion, items)) return unwrap(kind, apiVersion, items, path);
  if (isKubeKind(kind)) return [ofKnownKind(kind, apiVersion, value, path)];
  return [ofOtherKind(kind, apiVersion, value, path)];
}

const listSuffix = 'List';

/** `List`, `ServiceList` and so on, and any other `…List` with items: names of ordinary kinds may end in List too. */
function isListKind(kind: string, apiVersion: string, items: Json | undefined): boolean {
  if (kind === 'List') return apiVersion === 'v1';
  return kind.endsWith(listSuffix) && (isKubeKind(itemKind(kind)) || Array.isArray(items));
}

function itemKind(kind: string): string {
  return kind.slice(0, -listSuffix.length);
}

function unwrap(kind: string, apiVersion: string, items: Json | undefined, path: Path): FoundObject[] {
  // An empty list of an API server can be `items: null`.
  if (items === undefined || items === null) return [];
  if (!Array.isArray(items))
    return [{ is: 'malformed', why: `the items of the ${kind} are not a list`, path: [...path, 'items'] }];
  const listType = kind === 'List' ? undefined : { kind: itemKind(kind), apiVersion };
  return items.flatMap((item: Json, index): FoundObject[] => {
    const itemPath = [...path, 'items', index];
    if (item === null) return [{ is: 'malformed', why: 'the item is empty', path: itemPath }];
    return findObjects(item, itemPath, listType);
  });
}

function ofKnownKind(kind: KubeKind, apiVersion: string, value: JsonObject, path: Path): FoundObject {
  const [reads, ...older] = apiVersions[kind];
  if (apiVersion === reads || older.includes(apiVersion)) return { is: 'object', kind, apiVersion, value, path };
  // A Service of serving.knative.dev is another kind. Without a group it is the core kind, whatever its version.
  const group = groupOf(apiVersion);
  if (group !== '' && group !== groupOf(reads)) return { is: 'ignored', kind: `${kind}.${group}`, path };
  return { is: 'unknown-version', kind, apiVersion, reads, path };
}

function ofOtherKind(kind: string, apiVersion: string, value: JsonObject, path: Path): FoundObject {
  const group = groupOf(apiVersion);
  if (kind === 'SluiceConfig' && group === 'sluice.dev') return { is: 'sluice-config', path };
  if (kind === 'Snapshot' && group === 'sluice.dev') return { is: 'snapshot', value, path };
  if (isKubeProxyInput(value, kind, group)) return { is: 'kube-proxy', value, path };
  const near = ownGroups.has(group) ? nearest(kind, Object.keys(apiVersions)) : undefined;
  const setting = ofInstallers.find((one) => one.reduce<Json | undefined>(childOf, value) !== undefined);
  return { is: 'ignored', kind, ...(near && { near: near as KubeKind }), ...(setting && { setting }), path };
}

/** kOps, Gardener, k0s, OpenShift and kind. */
const ofInstallers: readonly (readonly string[])[] = [
  ['spec', 'kubeProxy'],
  ['spec', 'kubernetes', 'kubeProxy'],
  ['spec', 'network', 'kubeProxy'],
  ['spec', 'kubeProxyConfig'],
  ['networking', 'kubeProxyMode'],
];

function groupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
}

function isKubeKind(kind: string): kind is KubeKind {
  return Object.hasOwn(apiVersions, kind);
}

/** A non-empty string under an own key of the object; undefined otherwise. */
function textOf(map: JsonObject, key: string): string | undefined {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

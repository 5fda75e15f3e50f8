import { addAll, compareText, type Problem } from '@sluice/netfilter';
import { stringify } from 'yaml';
import type { Json, JsonObject } from '../render/model/kube.ts';
import type { Access } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { readConfigMaps } from './configmap.ts';
import { keep } from './keep.ts';
import { type ListedKind, listedKinds } from './kinds.ts';
import { listAs, type KindListOptions } from './list.ts';
import { unreadServiceCIDRs } from './refusal.ts';

/** The scope of a snapshot. */
interface SnapshotScope {
  /** Only Services and endpoints of these namespaces; empty: all. */
  readonly namespaces: readonly string[];
  /** Only Services and endpoints with these labels: endpoint controllers copy the labels of a Service. */
  readonly selector?: string;
}

/** The state of a cluster: a header, and objects by their file in a snapshot directory. */
export interface Snapshot {
  readonly header: JsonObject;
  readonly parts: ReadonlyMap<string, readonly JsonObject[]>;
  /** Notes on optional objects that could not be read. */
  readonly notes: readonly Problem[];
}

interface TakeOptions extends Pick<KindListOptions, 'pageObjects' | 'patience'> {
  /** Called with the progress, such as `reading services: 500`. */
  readonly onProgress?: (what: string) => void;
}

/**
 * Reads all objects that affect rules, sorted by namespace and name.
 * @throws ClusterFailure
 */
export async function takeSnapshot(access: Access, asked: SnapshotScope, options: TakeOptions = {}): Promise<Snapshot> {
  const reader = new Reader(access, asked, options);
  await reader.read(listedKinds.Service);
  const hasSlices = await reader.read(listedKinds.EndpointSlice, true);
  if (!hasSlices) await reader.read(listedKinds.Endpoints);
  await reader.read(listedKinds.Node);
  await reader.readServiceCIDRs();
  await reader.readConfigMaps();
  return { header: headerOf(asked, reader.versions), parts: reader.parts, notes: reader.notes };
}

class Reader {
  readonly parts = new Map<string, readonly JsonObject[]>();
  readonly versions: Record<string, string> = {};
  readonly notes: Problem[] = [];
  private readonly access: Access;
  private readonly asked: SnapshotScope;
  private readonly options: TakeOptions;

  constructor(access: Access, asked: SnapshotScope, options: TakeOptions) {
    this.access = access;
    this.asked = asked;
    this.options = options;
  }

  /** @returns false when the cluster does not have an optional kind */
  async read(kind: ListedKind, mayLack = false): Promise<boolean> {
    const everywhere = !kind.namespaced || this.asked.namespaces.length === 0;
    const namespaces = everywhere ? [undefined] : [...new Set(this.asked.namespaces)].toSorted(compareText);
    const found: JsonObject[] = [];
    for (const namespace of namespaces) {
      const kept = (object: JsonObject): JsonObject => keep(kind, object);
      const listed = await listAs(this.access, kind, kept, this.listOptions(kind, namespace));
      if (listed === undefined) {
        if (mayLack) return false;
        throw noSuchKind(this.access, kind);
      }
      addAll(found, listed.items);
      this.versions[namespace === undefined ? kind.resource : `${kind.resource}/${namespace}`] = listed.resourceVersion;
    }
    this.parts.set(kind.resource, found.toSorted(byName));
    return true;
  }

  /** Reads ServiceCIDRs, if they exist and are readable; without them the ranges come from the config. */
  async readServiceCIDRs(): Promise<void> {
    try {
      await this.read(listedKinds.ServiceCIDR, true);
    } catch (error) {
      if (!(error instanceof ClusterFailure) || error.problem.code !== 'CLUSTER_FORBIDDEN') throw error;
      this.notes.push(unreadServiceCIDRs(error));
    }
  }

  async readConfigMaps(): Promise<void> {
    const { objects, note } = await readConfigMaps(this.access, this.options.patience);
    if (objects.length > 0) this.parts.set('configmaps', objects);
    if (note !== undefined) this.notes.push(note);
  }

  private listOptions(kind: ListedKind, namespace: string | undefined): KindListOptions {
    const { onProgress, ...rest } = this.options;
    return {
      ...rest,
      ...(namespace === undefined ? {} : { namespace }),
      ...(kind.namespaced && this.asked.selector !== undefined ? { selector: this.asked.selector } : {}),
      onPage: (objects) => onProgress?.(`reading ${kind.resource}: ${objects}`),
    };
  }
}

function noSuchKind(access: Access, kind: ListedKind): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot list ${kind.resource} of ${access.server}: the server does not have this resource`,
    'Check whether the address in the kubeconfig is an API server',
  );
}

function byName(a: JsonObject, b: JsonObject): number {
  return compareText(keyOf(a), keyOf(b));
}

/** Namespace, then name: a space sorts before every character of a name. */
function keyOf(object: JsonObject): string {
  const { namespace = '', name = '' } = object['metadata'] as { namespace?: string; name?: string };
  return `${namespace} ${name}`;
}

function headerOf(asked: SnapshotScope, versions: Readonly<Record<string, string>>): JsonObject {
  const namespaces = [...new Set(asked.namespaces)].toSorted(compareText);
  return {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'Snapshot',
    format: 1,
    complete: namespaces.length === 0 && asked.selector === undefined,
    asked: { namespaces, ...(asked.selector === undefined ? {} : { selector: asked.selector }) },
    resourceVersions: versions,
  };
}

/** All possible files of a snapshot directory besides its header. */
export const snapshotKinds: readonly string[] = [
  ...Object.values(listedKinds).map(({ resource }) => `${resource}.yaml`),
  'configmaps.yaml',
];

/** Prints a snapshot as one text: the header, then the objects by kind, namespace and name. */
export function printSnapshot(snapshot: Snapshot): string {
  return [...snapshotFiles(snapshot).values()].join('');
}

/** Prints a snapshot as files: `snapshot.yaml` with the header, and one for each kind. */
export function snapshotFiles(snapshot: Snapshot): ReadonlyMap<string, string> {
  const parts = [...snapshot.parts].toSorted(([a], [b]) => compareText(a, b));
  return new Map([
    ['snapshot.yaml', print(snapshot.header)],
    ...parts.map(([resource, objects]) => [`${resource}.yaml`, objects.map(print).join('')] as const),
  ]);
}

function print(object: Json): string {
  // `compat` quotes scalars that YAML 1.1 reads differently, such as `no`.
  return `---\n${stringify(object, { sortMapEntries: byKey, lineWidth: 0, compat: 'yaml-1.1', aliasDuplicateObjects: false })}`;
}

const byKey = (a: { key: unknown }, b: { key: unknown }): number => compareText(textOf(a.key), textOf(b.key));

/** Keys are nodes of the YAML library or strings. */
function textOf(key: unknown): string {
  return String(typeof key === 'object' && key !== null && 'value' in key ? key.value : key);
}

import { drainConditions } from '@sluice/bundle';
import { isMap, type Json, type JsonObject } from '../render/model/kube.ts';
import { hintsKeys, schedulerKey, tableSizeKey, weightsKey } from '../render/read/annotations.ts';
import { isUnsupported } from '../render/read/unsupported-annotations.ts';
import { mapAt } from './json.ts';
import type { ListedKind } from './kinds.ts';

const annotationsKept: readonly string[] = [schedulerKey, weightsKey, tableSizeKey, ...hintsKeys];
/** Those that affect rules, and those that `sluice policy` names because they do not. */
const isKept = (key: string): boolean => annotationsKept.includes(key) || isUnsupported(key);

/**
 * Reduces an object to the fields of a snapshot: those that affect rules, and none that change without effect on rules, such as managed
 * fields, heartbeats or resource versions.
 */
export function keep(kind: ListedKind, object: JsonObject): JsonObject {
  return present({
    apiVersion: kind.apiVersion,
    kind: kind.kind,
    metadata: metadataOf(object, kind),
    ...bodyOf(kind, object),
  });
}

/** Reduces a ConfigMap to kube-proxy's configuration; undefined without one. */
export function keepConfigMap(object: JsonObject): JsonObject | undefined {
  const bytes = Object.entries(mapAt(object, 'binaryData')).map(
    ([key, text]) => [key, typeof text === 'string' ? Buffer.from(text, 'base64').toString('utf8') : ''] as const,
  );
  const data = [...Object.entries(mapAt(object, 'data')), ...bytes].filter(
    ([, text]) => typeof text === 'string' && text.includes('KubeProxyConfiguration'),
  );
  if (data.length === 0) return undefined;
  const metadata = metadataOf(object);
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: Object.fromEntries(data) };
}

function bodyOf(kind: ListedKind, object: JsonObject): Record<string, Json | undefined> {
  const status = mapAt(object, 'status');
  switch (kind.kind) {
    case 'Service':
      return { spec: object['spec'], status: some({ loadBalancer: nonEmpty(status['loadBalancer']) }) };
    case 'EndpointSlice':
      return { addressType: object['addressType'], endpoints: object['endpoints'], ports: object['ports'] };
    case 'Endpoints':
      return { subsets: object['subsets'] };
    case 'ServiceCIDR':
      return { spec: object['spec'], status: isReady(status) ? undefined : notReady };
    case 'Node': {
      const capacity = some({ cpu: mapAt(status, 'capacity')['cpu'] });
      // Without their heartbeats.
      const conditions = conditionsOf(status)
        .filter((one) => drainConditions.some((type) => type === one['type']))
        .map((one) => present({ type: one['type'], status: one['status'] }));
      const drain = conditions.length === 0 ? undefined : conditions;
      return {
        spec: object['spec'],
        status: some({ addresses: status['addresses'], capacity, conditions: drain }),
      };
    }
  }
}

/** The only status of a ServiceCIDR that matters: no new addresses are allocated from one that is not ready. */
const notReady = { conditions: [{ type: 'Ready', status: 'False' }] } as const;

/** Like the API server: ready unless a condition says otherwise. */
function isReady(status: JsonObject): boolean {
  const ready = conditionsOf(status).find(({ type }) => type === 'Ready');
  return ready === undefined || ready['status'] === 'True';
}

const conditionsOf = ({ conditions }: JsonObject): readonly JsonObject[] =>
  ((Array.isArray(conditions) ? conditions : []) as readonly Json[]).filter(isMap);

/** Kinds whose deletion has an effect before they are gone. */
const endsLate: ReadonlySet<string> = new Set(['ServiceCIDR', 'Node']);

function metadataOf(object: JsonObject, kind?: ListedKind): JsonObject {
  const metadata = mapAt(object, 'metadata');
  const annotations = Object.entries(mapAt(metadata, 'annotations')).filter(([key]) => isKept(key));
  return present({
    name: metadata['name'],
    namespace: metadata['namespace'],
    labels: metadata['labels'],
    annotations: some(Object.fromEntries(annotations)),
    creationTimestamp: metadata['creationTimestamp'],
    deletionTimestamp: kind && endsLate.has(kind.kind) ? metadata['deletionTimestamp'] : undefined,
  });
}

/** The entries with a value. */
function present(map: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(Object.entries(map).filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

/** Like `present`; undefined without entries. */
function some(map: Record<string, Json | undefined>): JsonObject | undefined {
  const left = present(map);
  return Object.keys(left).length === 0 ? undefined : left;
}

function nonEmpty(value: Json | undefined): Json | undefined {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0 ? undefined : value;
}

import { type AddressFacts, type EndpointFacts, type PortFacts, portPairs, type ServiceFacts } from './facts.ts';

/** One fact of a Service that differs between two bundles. */
export interface FactChange {
  readonly what:
    | 'type'
    | 'port'
    | 'address'
    | 'node-port'
    | 'endpoint'
    | 'internal-policy'
    | 'external-policy'
    | 'affinity'
    | 'scheduler'
    | 'weight'
    | 'source-range'
    | 'health-check-port';
  /** The port, `shop/web:http 80/TCP`; absent for a fact of the whole Service. */
  readonly port?: string;
  /** Absent: added. */
  readonly old?: string;
  /** Absent: removed. */
  readonly new?: string;
}

/** The changed facts of a Service; empty for equal facts. @param old absent: the Service is new */
export function factChanges(old: ServiceFacts | undefined, updated: ServiceFacts | undefined): readonly FactChange[] {
  return [
    ...(old && updated ? scalar('type', undefined, old.type, updated.type) : []),
    ...portPairs(old, updated).flatMap((pair) => portChanges(pair.old, pair.new)),
  ];
}

function portChanges(old: PortFacts | undefined, updated: PortFacts | undefined): readonly FactChange[] {
  const key = (updated ?? old)!.key;
  const both = old !== undefined && updated !== undefined;
  return [
    ...scalar('port', undefined, old?.key, updated?.key),
    ...lists('address', key, old?.addresses.map(addressText), updated?.addresses.map(addressText)),
    ...scalar('node-port', key, portText(old?.nodePort), portText(updated?.nodePort)),
    ...endpointChanges(key, old?.endpoints ?? [], updated?.endpoints ?? []),
    ...(both ? scalar('internal-policy', key, old.internalPolicy, updated.internalPolicy) : []),
    ...(both ? scalar('external-policy', key, old.externalPolicy, updated.externalPolicy) : []),
    ...scalar('affinity', key, affinityText(old), affinityText(updated)),
    ...(old?.scheduler && updated?.scheduler ? scalar('scheduler', key, old.scheduler, updated.scheduler) : []),
    ...(both ? weightChanges(key, old.endpoints, updated.endpoints) : []),
    ...(both
      ? rangeChanges(key, old.sourceRanges, updated.sourceRanges)
      : lists('source-range', key, old?.sourceRanges, updated?.sourceRanges)),
    ...scalar('health-check-port', key, portText(old?.healthCheckPort), portText(updated?.healthCheckPort)),
  ];
}

/** An endpoint that moves to another node is one change, not two. */
function endpointChanges(
  port: string,
  old: readonly EndpointFacts[],
  updated: readonly EndpointFacts[],
): readonly FactChange[] {
  const before = new Map(old.map((endpoint) => [endpoint.text, endpointText(endpoint)]));
  const after = new Map(updated.map((endpoint) => [endpoint.text, endpointText(endpoint)]));
  const texts = [...new Set([...before.keys(), ...after.keys()])].toSorted();
  return texts.flatMap((text) => scalar('endpoint', port, before.get(text), after.get(text)));
}

/** Only for endpoints of both bundles: an added one has its weight in its own change. */
function weightChanges(
  port: string,
  old: readonly EndpointFacts[],
  updated: readonly EndpointFacts[],
): readonly FactChange[] {
  const before = new Map(old.map((endpoint) => [endpoint.text, endpoint.weight ?? '1']));
  return updated.flatMap(({ text, weight = '1' }) => {
    const was = before.get(text);
    return was === undefined || was === weight ? [] : scalar('weight', port, `${text} ${was}`, `${text} ${weight}`);
  });
}

const openToAll = 'open to all';

/** Removing the last range opens the address to all, the gravest part of such a change, so the change says it. */
function rangeChanges(port: string, old: readonly string[], updated: readonly string[]): readonly FactChange[] {
  if (old.length > 0 && updated.length > 0) return lists('source-range', port, old, updated);
  return scalar('source-range', port, old.join(', ') || openToAll, updated.join(', ') || openToAll);
}

/** `10.244.1.5:8080 on node-a in zone-a` */
function endpointText({ text, node, zone }: EndpointFacts): string {
  return `${text}${node === undefined ? '' : ` on ${node}`}${zone === undefined ? '' : ` in ${zone}`}`;
}

const addressText = ({ kind, text }: AddressFacts): string => `${kind} ${text}`;
const portText = (port: number | undefined): string | undefined => (port ? String(port) : undefined);
const affinityText = (port: PortFacts | undefined): string | undefined =>
  port?.affinity?.map((seconds) => `${seconds} s`).join(', ');

function lists(
  what: FactChange['what'],
  port: string,
  old: readonly string[] = [],
  updated: readonly string[] = [],
): readonly FactChange[] {
  return [
    ...old.filter((text) => !updated.includes(text)).map((text) => change(what, port, text, undefined)),
    ...updated.filter((text) => !old.includes(text)).map((text) => change(what, port, undefined, text)),
  ];
}

function scalar(
  what: FactChange['what'],
  port: string | undefined,
  old: string | undefined,
  updated: string | undefined,
): readonly FactChange[] {
  return old === updated ? [] : [change(what, port, old, updated)];
}

function change(
  what: FactChange['what'],
  port: string | undefined,
  old: string | undefined,
  updated: string | undefined,
): FactChange {
  return {
    what,
    ...(port === undefined ? {} : { port }),
    ...(old === undefined ? {} : { old }),
    ...(updated === undefined ? {} : { new: updated }),
  };
}

import { plural } from '@sluice/netfilter';
import type { BundleDiff } from '../diff/diff.ts';
import type { ServiceChange } from '../diff/service-changes.ts';
import type { FactChange } from '../facts/fact-changes.ts';
import type { SingleEffect } from './effect.ts';
import type { ReportEndpoint, ReportService } from './services.ts';
import type { Severity } from './severity.ts';

/** What the changes of declarations do: of Services, their ports, frontends and endpoints. */
export function factEffects(diff: BundleDiff, services: readonly ReportService[]): readonly SingleEffect[] {
  const changed = services.filter(({ fate }) => fate === 'changed');
  const unbalanced = new Set(changed.filter(hasLostBalancer).map(({ service }) => service));
  const own = diff.services.map((change) =>
    // Source ranges count for load-balancer addresses alone.
    unbalanced.has(change.service)
      ? { ...change, changes: change.changes.filter(({ what }) => what !== 'source-range') }
      : change,
  );
  return [...own.flatMap(changeEffects), ...changed.flatMap(endpointEffects), ...drainedNodes(diff, services)];
}

/** Fewer endpoints of a node may leave by chance. */
const drainedMin = 3;

/** Nodes that stay and lose all their endpoints. */
function drainedNodes({ nodes }: BundleDiff, services: readonly ReportService[]): readonly SingleEffect[] {
  const left = new Set(nodes.removed);
  const byNode = Map.groupBy(
    services.flatMap(({ endpoints }) => endpoints),
    ({ node }) => node,
  );
  return [...byNode].flatMap(([node, endpoints]): readonly SingleEffect[] => {
    const leave = endpoints.filter(isLeaving).length;
    if (node === undefined || left.has(node) || leave < Math.max(drainedMin, endpoints.length)) return [];
    const detail = `${leave} endpoints leave`;
    return [{ severity: 'moves', sentence: 'has no endpoint any more', name: node, isService: false, detail }];
  });
}

function hasLostBalancer({ frontends }: ReportService): boolean {
  const balanced = frontends.filter(({ kind }) => kind === 'load-balancer');
  return balanced.length > 0 && balanced.every(({ fate }) => fate === 'removed');
}

type Saying = readonly [severity: Severity, sentence: string, detail: string];

function changeEffects(change: ServiceChange): readonly SingleEffect[] {
  const own: readonly Saying[] =
    change.kind === 'removed'
      ? [['closes', 'is removed', '']]
      : change.kind === 'added'
        ? [['adds', 'is added', '']]
        : [];
  const emptied = change.emptied.map(
    (port): Saying => ['last-endpoint', 'has no endpoint left: connections are rejected', portPart(port)],
  );
  const facts = change.kind === 'removed' ? [] : change.changes.flatMap((fact) => factSayings(fact, change));
  return [...own, ...emptied, ...facts].map(([severity, sentence, detail]) => ({
    severity,
    sentence,
    detail,
    name: change.service,
    isService: true,
  }));
}

/** `http 80/TCP` of `shop/web:http 80/TCP`; `80/TCP` of `shop/web 80/TCP`. */
function portPart(key: string): string {
  const colon = key.indexOf(':');
  return key.slice((colon < 0 ? key.indexOf(' ') : colon) + 1);
}

/** What one changed fact does. Of an added Service only what opens it to the outside. */
function factSayings(fact: FactChange, change: ServiceChange): readonly Saying[] {
  const all = sayingsOf(fact, change);
  return change.kind === 'added' ? all.filter(([severity]) => severity === 'opens') : all;
}

function sayingsOf(fact: FactChange, { changes, kind, nodes }: ServiceChange): readonly Saying[] {
  const { what, old, new: updated } = fact;
  const port = fact.port === undefined ? '' : portPart(fact.port);
  const turn = `${old ?? 'none'} → ${updated ?? 'none'}`;
  switch (what) {
    case 'type':
      return [['settings', 'changes its type', turn]];
    case 'port':
      if (old === undefined) return [['adds', 'gets a port', portPart(updated!)]];
      if (updated === undefined) return [['closes', 'loses a port', portPart(old)]];
      return [['settings', 'renames a port', `${portPart(old)} → ${portPart(updated)}`]];
    case 'address':
      return [
        ...(updated === undefined ? [] : [opened(updated)]),
        ...(old === undefined ? [] : [['closes', `loses ${addressKind(old)}`, addressPart(old)] as const]),
      ];
    case 'node-port':
      return [
        ...(updated === undefined
          ? []
          : [['opens', `opens a node port on ${plural(nodes, 'node')}`, `${updated} for ${port}`] as const]),
        ...(old === undefined ? [] : [['closes', 'closes a node port', `${old} for ${port}`] as const]),
      ];
    case 'endpoint':
      return []; // counted for all families and profiles at once
    case 'internal-policy':
      return [['moves', `changes internalTrafficPolicy to ${updated}`, port]];
    case 'external-policy':
      return [['moves', `changes externalTrafficPolicy to ${updated}`, port]];
    case 'affinity':
      return [['connections', 'changes its session affinity: clients may lose their endpoint', `${turn}, ${port}`]];
    case 'scheduler':
      return [['moves', 'changes its scheduler', `${turn}, ${port}`]];
    case 'weight':
      return [['moves', 'changes weights', turn]];
    case 'source-range':
      return kind === 'added' || isNewPort(fact, changes) ? [] : [rangeSaying(fact, port)];
    case 'health-check-port':
      return [['settings', 'changes its health-check node port', turn]];
  }
}

/** Ranges of a port that was not there widen nothing. */
const isNewPort = ({ port }: FactChange, changes: readonly FactChange[]): boolean =>
  changes.some(({ what, old, new: updated }) => what === 'port' && old === undefined && updated === port);

function rangeSaying({ old, new: updated }: FactChange, port: string): Saying {
  if (updated === 'open to all') return ['opens', 'is opened to all sources', port];
  if (old === undefined) return ['opens', 'accepts further sources', `${updated}, ${port}`];
  return [
    'closes',
    'accepts fewer sources',
    `${updated === undefined ? `without ${old}` : `only ${updated}`}, ${port}`,
  ];
}

const addressKinds = {
  cluster: 'a ClusterIP',
  external: 'an external IP',
  'load-balancer': 'a load-balancer address',
} as const;

/** @param text `load-balancer 203.0.113.9:80`, as a fact has it */
function addressKind(text: string): string {
  return addressKinds[text.slice(0, text.indexOf(' ')) as keyof typeof addressKinds];
}
const addressPart = (text: string): string => text.slice(text.indexOf(' ') + 1);

const opened = (text: string): Saying =>
  text.startsWith('cluster ')
    ? ['adds', 'gets a ClusterIP', addressPart(text)]
    : ['opens', `answers on ${addressKind(text)}`, addressPart(text)];

/** What the endpoints of a Service of both bundles do, a saying for each port. */
function endpointEffects({ service, endpoints }: ReportService): readonly SingleEffect[] {
  return [...Map.groupBy(endpoints, ({ port }) => port)].flatMap(([port, own]): readonly SingleEffect[] => {
    const [leave, come] = [own.filter(isLeaving).length, own.filter(isComing).length];
    if (leave + come === 0) return [];
    const stay = own.length - leave - come;
    const detail = `${port}: ${[leave > 0 ? `${leave} leave` : '', come > 0 ? `${come} come` : '', `${stay} stay`].filter(Boolean).join(', ')}`;
    const base = { name: service, isService: true, detail };
    if (leave === 0 && stay === 0) return [{ ...base, severity: 'adds', sentence: 'gets its first endpoints' }];
    if (come === 0 && stay === 0) return []; // it loses its last one, or the port
    const sentence = leave === 0 ? 'gets endpoints' : come === 0 ? 'loses endpoints' : 'exchanges endpoints';
    return [{ ...base, severity: 'moves', sentence }];
  });
}

const isLeaving = ({ fate }: ReportEndpoint): boolean => fate === 'removed';
const isComing = ({ fate }: ReportEndpoint): boolean => fate === 'added';

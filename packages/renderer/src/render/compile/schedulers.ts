import type { Scheduler } from '@sluice/netfilter';
import type { Endpoint, Node, Service } from '../../model.ts';

/** The zone label: endpoints have their own zone, even if their node is unknown. */
const zoneLabel = 'topology.kubernetes.io/zone';

/** Schedulers that ignore weights (the kernel's `ip_vs_rr.c`, `ip_vs_lc.c`, `ip_vs_dh.c`). */
const blind: ReadonlySet<Scheduler> = new Set(['rr', 'lc', 'dh']);

/** Whether a scheduler uses weights. */
export function looksAtWeights(scheduler: Scheduler): boolean {
  return !blind.has(scheduler);
}

/** The weights of a Service's endpoints. kube-proxy gives each weight 1. */
export function weighing(service: Service, nodes: ReadonlyMap<string, Node>): (endpoint: Endpoint) => number {
  const rules = service.weights ?? [];
  if (rules.length === 0) return () => 1;
  return (endpoint) => {
    const node = nodes.get(endpoint.nodeName ?? '');
    const valueOf = (label: string): string | undefined =>
      (label === zoneLabel ? endpoint.zone : undefined) ?? node?.labels?.get(label);
    return rules.find(({ label, value }) => valueOf(label) === value)?.weight ?? 1;
  };
}

import { maglevSizeDefault, type NftScheduler, type Scheduler } from '@sluice/netfilter';
import type { CommonScheduler, Endpoint, Node, Service } from './model.ts';

export const commonSchedulers = [
  'random',
  'round-robin',
  'source-hash',
  'maglev',
] as const satisfies readonly CommonScheduler[];

export const isCommon = (scheduler: CommonScheduler | Scheduler | undefined): scheduler is CommonScheduler =>
  commonSchedulers.some((one) => one === scheduler);

/** The zone label: endpoints have their own zone, even if their node is unknown. */
const zoneLabel = 'topology.kubernetes.io/zone';

/** Schedulers that ignore weights (the kernel's `ip_vs_rr.c`, `ip_vs_lc.c`, `ip_vs_dh.c`). */
const blind: ReadonlySet<Scheduler> = new Set(['rr', 'lc', 'dh']);

/** Whether a scheduler of mode ipvs uses weights. */
export function looksAtWeights(scheduler: Scheduler): boolean {
  return !blind.has(scheduler);
}

/**
 * The scheduler of a Service in mode ipvs. The kernel has none that chooses at random: `random` is in turn, as `round-robin`.
 * @param byDefault the profile's
 */
export function ipvsSchedulerOf({ scheduler, weights }: Service, byDefault: Scheduler): Scheduler {
  if (!isCommon(scheduler)) return scheduler ?? byDefault;
  if (scheduler === 'source-hash') return 'sh';
  if (scheduler === 'maglev') return 'mh';
  return weights === undefined ? 'rr' : 'wrr';
}

/**
 * The scheduler of a Service in mode nftables; undefined: at random. With session affinity new clients get an endpoint at random, and
 * schedulers of mode ipvs alone have no counterpart.
 */
export function nftSchedulerOf({ scheduler, maglevSize, ports }: Service): NftScheduler | undefined {
  if (ports.some(({ affinitySeconds }) => affinitySeconds !== undefined)) return undefined;
  if (scheduler === 'maglev') return `maglev ${maglevSize ?? maglevSizeDefault}`;
  return scheduler === 'round-robin' || scheduler === 'source-hash' ? scheduler : undefined;
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

/** The scheduler and the weights of a Service, for its comment block. @param scheduler as the mode names it */
export function choicesOf({ weights = [] }: Service, scheduler: string | undefined): readonly string[] {
  return [
    ...(scheduler === undefined ? [] : [`scheduler ${scheduler}`]),
    ...weights.map(({ label, value, weight }) => `weight ${weight} where ${label}=${value}`),
  ];
}

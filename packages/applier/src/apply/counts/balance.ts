import { compareText, type Family } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { RuleCount } from './rule-counts.ts';
import type { Shares } from './shares.ts';

/** What an endpoint got, and should have got, in a window of time. */
export interface EndpointBalance {
  readonly connections: number;
  readonly expected: number;
  /** Of the number that chance gives. */
  readonly variance: number;
}

/** An endpoint far from its share. */
export interface Imbalance {
  readonly service: string;
  readonly endpoint: string;
  readonly connections: number;
  readonly expected: number;
}

interface Window {
  readonly startMs: number;
  readonly endpoints: Map<string, EndpointBalance>;
  /** Also those of the window before, until they can be judged again. */
  readonly far: Map<string, Imbalance>;
}

/**
 * Compares what endpoints get with their shares, where connections are chosen independently. Time in which the shares changed counts for
 * nothing, as it is not known which connection came before the change. Nor do counts that were taken on other rules than those of the shares:
 * while a release is on probation, and before a repair, the rules were not all there.
 */
export class Balance {
  #shares: ReadonlyMap<string, Shares> = new Map();
  #rules: string | undefined = '';
  /** By Service; those without new connections for two windows are forgotten. */
  readonly #windows = new Map<string, Window>();

  /**
   * @param reading all counts
   * @param came what came since the reading before
   * @param sharesOf the shares of a group now
   * @param rules names the rules that were counted on, and when they were last repaired; undefined: not known
   */
  take(
    reading: readonly RuleCount[],
    came: readonly RuleCount[],
    sharesOf: (family: Family, group: string) => Shares | undefined,
    nowMs: number,
    rules: string | undefined = '',
  ): void {
    if (rules === undefined || rules !== this.#rules) {
      this.#shares = new Map();
      this.#windows.clear();
    }
    this.#rules = rules;
    if (rules === undefined) return;
    const now = new Map<string, Shares>();
    const settled = new Set<string>();
    for (const one of reading) {
      const id = idOf(one);
      const shares = one.group === undefined || now.has(id) ? undefined : sharesOf(familyOf(one), one.group);
      if (!shares) continue;
      now.set(id, shares);
      const before = this.#shares.get(id);
      if (before && isSame(before, shares)) settled.add(id);
      else this.#windows.delete(one.service);
    }
    for (const [id, own] of Map.groupBy(came, idOf)) {
      const [shares, service] = [now.get(id), own[0]?.service];
      if (shares && service !== undefined && settled.has(id)) addTo(this.#window(service, nowMs), shares, own);
    }
    this.#shares = now;
    for (const [service, window] of this.#windows) {
      if (nowMs - window.startMs > 2 * limits.balanceWindowMs) this.#windows.delete(service);
      else judge(service, window);
    }
  }

  /** Empty where nothing is known. */
  of(service: string): ReadonlyMap<string, EndpointBalance> {
    return this.#windows.get(service)?.endpoints ?? new Map<string, EndpointBalance>();
  }

  /** The endpoints far from their shares, in the order of names. */
  get far(): readonly Imbalance[] {
    return [...this.#windows.values()]
      .flatMap(({ far }) => [...far.values()])
      .toSorted((a, b) => compareText(a.service, b.service) || compareText(a.endpoint, b.endpoint));
  }

  #window(service: string, nowMs: number): Window {
    const before = this.#windows.get(service);
    if (before && nowMs - before.startMs <= limits.balanceWindowMs) return before;
    const window = { startMs: nowMs, endpoints: new Map<string, EndpointBalance>(), far: before?.far ?? new Map() };
    this.#windows.set(service, window);
    return window;
  }
}

const familyOf = ({ endpoint }: RuleCount): Family => (endpoint.startsWith('[') ? 'ipv6' : 'ipv4');
/** Both families may have a chain of a name. */
const idOf = (one: RuleCount): string => `${familyOf(one)} ${one.group ?? ''}`;

const isSame = (a: Shares, b: Shares): boolean =>
  a === b || (a.size === b.size && [...a].every(([endpoint, share]) => b.get(endpoint) === share));

function addTo({ endpoints }: Window, shares: Shares, came: readonly RuleCount[]): void {
  const all = came.reduce((sum, { connections }) => sum + connections, 0);
  const got = new Map<string, number>();
  for (const { endpoint, connections } of came) got.set(endpoint, (got.get(endpoint) ?? 0) + connections);
  for (const [endpoint, share] of shares) {
    const { connections, expected, variance } = endpoints.get(endpoint) ?? { connections: 0, expected: 0, variance: 0 };
    endpoints.set(endpoint, {
      connections: connections + (got.get(endpoint) ?? 0),
      expected: expected + all * share,
      variance: variance + all * share * (1 - share),
    });
  }
}

function judge(service: string, { endpoints, far }: Window): void {
  for (const [endpoint, balance] of endpoints) {
    const { connections, expected } = balance;
    if (expected < limits.imbalanceExpectedLeast) continue;
    if (isFar(balance)) far.set(endpoint, { service, endpoint, connections, expected: Math.round(expected) });
    else far.delete(endpoint);
  }
}

function isFar({ connections, expected, variance }: EndpointBalance): boolean {
  const { imbalanceSigmas, imbalanceFactor } = limits;
  const isChance = Math.abs(connections - expected) <= imbalanceSigmas * Math.sqrt(variance);
  return !isChance && (connections > expected * imbalanceFactor || connections < expected / imbalanceFactor);
}

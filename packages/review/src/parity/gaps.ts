import type { NotCovered } from '@sluice/bundle';
import { type LiveRule, placeOfServer } from '@sluice/netfilter';
import type { Destination, FlowOutcome } from '../flows/flow.ts';
import type { ObservedNode } from '../observed/node.ts';

/** Something for which a packet has no certain outcome. */
export interface Gap {
  /** The rule; undefined: the order of tables, or a rule without a target. */
  readonly rule: LiveRule | undefined;
  /** Without a rule: what is named in its place. */
  readonly what?: string;
  readonly why: string;
}

export interface FoundGap extends Pick<NotCovered, 'what' | 'why'> {
  readonly rule: LiveRule | undefined;
  readonly cases: number;
  /** False: no packet shows it. */
  readonly matters: boolean;
}

/** What a comparison does not cover, once for each rule or name. */
export class Gaps {
  readonly #found = new Map<string, FoundGap>();

  get all(): readonly FoundGap[] {
    return [...this.#found.values()];
  }

  add({ rule, why, what: named = 'rules on the way of a packet' }: Gap, matters = true): void {
    const what = rule?.text ?? named;
    const cases = (this.#found.get(what)?.cases ?? 0) + 1;
    this.#found.set(what, { what, why, rule, cases, matters });
  }

  addAll(gaps: readonly Gap[]): void {
    for (const gap of gaps) this.add(gap);
  }
}

/** Two schedulers of which one asks for the load of endpoints. */
export const byLoad = (
  { scheduler: one = 'random' }: FlowOutcome,
  { scheduler: other = 'random' }: FlowOutcome,
): Gap => ({
  rule: undefined,
  what: `schedulers ${one} (observed) and ${other}`,
  why: 'which endpoint a client finds depends on the load; shares are compared for an equal one',
});

/** Virtual servers at frontends in a form that neither kube-proxy nor Sluice uses: what they do with packets is not followed. */
export function unreadServers(
  { unreadServers: keys, addresses }: ObservedNode,
  destinations: readonly Destination[],
): readonly Gap[] {
  const places = new Set(
    destinations.flatMap(({ kind, address, port, protocol }) =>
      (kind === 'node-port' ? addresses : [address]).map((one) => `${protocol} ${one} ${port}`),
    ),
  );
  const why = 'its scheduler, options or forwarding method are not read';
  return keys
    .filter((key) => places.has(placeOfServer(key) ?? ''))
    .map((key) => ({ rule: undefined, what: `virtual server ${key}`, why }));
}

import {
  printRemoval,
  type Problem,
  refusal,
  type Removal,
  removalBetween,
  type RemovalBound,
} from '@sluice/netfilter';
import type { Clock } from '../../ports/clock.ts';
import type { Refusal } from '../../ports/refusal.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';

/** Which removals are held, and for how long. */
export interface RemovalRules extends RemovalBound {
  /** How long bundles must have had the removal, in milliseconds; 0: none is held. */
  readonly holdMs: number;
}

/**
 * Decides whether a change that takes away most Services is held: an API server that was restored empty, or a kubeconfig of another cluster,
 * must not take a cluster off the network. The Services stay as they are until bundles have lacked them for a while, or an operator says that
 * it is meant; `reconcile` puts in what else changes.
 *
 * A held removal is no cause of bad health: the node serves as before, and a load balancer that took out all nodes would do what the hold is
 * there to prevent. The time begins again with each process, and when a bundle comes that is no removal.
 */
export class RemovalHold {
  readonly #rules: RemovalRules;
  readonly #clock: Pick<Clock, 'now' | 'bootMs'>;
  #since: { readonly bootMs: number; readonly nowMs: number } | undefined;

  constructor(rules: RemovalRules = { share: 1, least: Infinity, holdMs: 0 }, clock: Pick<Clock, 'now' | 'bootMs'>) {
    this.#rules = rules;
    this.#clock = clock;
  }

  /**
   * @param isMeant an operator said so
   * @returns why a change must wait; undefined: it need not
   */
  refuse(
    change: Pick<PlannedChange, 'bundle' | 'from' | 'changeKind' | 'last'>,
    isMeant: boolean,
  ): Refusal | undefined {
    const removal = isMeant ? undefined : this.#removalOf(change);
    if (!removal) {
      this.forget();
      return undefined;
    }
    this.#since ??= { bootMs: this.#clock.bootMs(), nowMs: this.#clock.now() };
    const { bootMs, nowMs } = this.#since;
    if (this.#clock.bootMs() - bootMs >= this.#rules.holdMs) return undefined;
    const problem = removalHeld(change.bundle.version, removal, nowMs + this.#rules.holdMs);
    return { problems: [problem], emptied: change.last ?? [] };
  }

  /** The same rules for what a held bundle changes else: its time is another one. */
  ofRest(): RemovalHold {
    return new RemovalHold(this.#rules, this.#clock);
  }

  /** The present bundle was not compared, or is in the kernel. */
  forget(): void {
    this.#since = undefined;
  }

  #removalOf(change: Pick<PlannedChange, 'bundle' | 'from' | 'changeKind' | 'last'>): Removal | undefined {
    const { bundle, from, changeKind, last = [] } = change;
    // Generation 0 has no Services of Sluice. Other endpoint updates leave each Service an endpoint.
    if (this.#rules.holdMs === 0 || from.number === 0 || (changeKind === 'endpoints' && last.length === 0))
      return undefined;
    return removalBetween(from.state, bundle.state, this.#rules);
  }
}

function removalHeld(version: string, removal: Removal, untilMs: number): Problem {
  const until = new Date(untilMs).toISOString().replace(/\.\d+Z$/, 'Z');
  return refusal(
    'REMOVAL_HELD',
    `Cannot apply version ${version} yet: it takes away ${printRemoval(removal, 'Service addresses')}; held until ${until}, these Services stay as they are`,
    'Find out whether the source of the bundle sees the whole cluster. If the removal is meant, run `sluiced apply DIR --node NAME`, or release it with `sluice release --accept-removal`; `removals` in sluiced.yaml has the bounds',
  );
}

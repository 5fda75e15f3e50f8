import { compareText, type Problem } from '@sluice/bundle';
import { stringify } from 'yaml';
import type { JsonObject, KubeObject } from '../kube.ts';
import { titleOf } from '../read/names.ts';

/** Why something is in quarantine: a problem of the thing itself, or of an object that belongs to it. */
export type Reason = Pick<Problem, 'code' | 'object' | 'message'>;

/** What is left out of the rules so that the others can be rendered: Services with all their endpoints, and Nodes. */
export class Ward {
  /** `Service shop/web`, `Node node-a` → why. */
  readonly #inside = new Map<string, Reason[]>();
  /** ServiceCIDRs, and slices that belong to no Service, by title. */
  readonly #loose = new Set<string>();

  /** Nothing is left out, not even what belongs to no thing. */
  get isEmpty(): boolean {
    return this.#inside.size + this.#loose.size === 0;
  }

  get things(): readonly string[] {
    return [...this.#inside.keys()].toSorted(compareText);
  }

  has(thing: string): boolean {
    return this.#inside.has(thing);
  }

  reasonsOf(thing: string): readonly Reason[] {
    const reasons = new Map(
      (this.#inside.get(thing) ?? []).map((reason) => [`${reason.code} ${reason.object}`, reason]),
    );
    return [...reasons].toSorted(([a], [b]) => compareText(a, b)).map(([, reason]) => reason);
  }

  /** @returns false when the thing was inside already, so that leaving it out cannot be what helps */
  take(thing: string, reason: Reason): boolean {
    const reasons = this.#inside.get(thing);
    if (reasons) reasons.push(reason);
    else this.#inside.set(thing, [reason]);
    return reasons === undefined;
  }

  /**
   * Takes in what a problem is about.
   * @param owners title of an object → what it belongs to, undefined for what belongs to none
   * @returns false when that is not known, or inside already
   */
  takeFor(problem: Problem, owners: ReadonlyMap<string, string | undefined>): boolean {
    const { object } = problem;
    if (object === undefined || !owners.has(object)) return false;
    const owner = owners.get(object);
    if (owner !== undefined) return this.take(owner, problem);
    return this.#loose.size < this.#loose.add(object).size;
  }

  /** Whether an object takes no part. */
  holds(object: KubeObject): boolean {
    const owner = ownerOf(object);
    return owner === undefined ? this.#loose.has(titleOf(object)) : this.has(owner);
  }
}

/** What an object belongs to: a Service's endpoints to the Service. */
export function ownerOf(object: KubeObject): string | undefined {
  // Without a ServiceCIDR there is a range less, and no rule.
  if (object.kind === 'ServiceCIDR') return undefined;
  if (object.kind !== 'EndpointSlice') {
    return object.kind === 'Endpoints' ? titleOf({ ...object, kind: 'Service' }) : titleOf(object);
  }
  const { labels, namespace = 'default' } = (object.value['metadata'] ?? {}) as {
    readonly labels?: JsonObject;
    readonly namespace?: string;
  };
  const service = labels?.['kubernetes.io/service-name'];
  return typeof service === 'string' && service !== '' ? `Service ${namespace}/${service}` : undefined;
}

/** What became of a thing in quarantine. */
export interface Quarantined {
  readonly object: string;
  readonly rules: 'last good' | 'none';
  readonly reasons: readonly Reason[];
}

/** `quarantine.yaml`. packages/bundle/README.md */
export function quarantineText(items: readonly Quarantined[]): string {
  const problemsOf = (reasons: readonly Reason[]): object[] =>
    reasons.map(({ code, object }) => ({ code, ...(object !== undefined && { object }) }));
  return stringify(
    {
      apiVersion: 'sluice.dev/v1alpha1',
      kind: 'Quarantine',
      items: items.map(({ object, rules, reasons }) => ({ object, rules, problems: problemsOf(reasons) })),
    },
    { lineWidth: 0 },
  );
}

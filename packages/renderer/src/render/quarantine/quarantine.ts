import { appendTo, compareText, perObject, type Problem } from '@sluice/netfilter';
import { stringify } from 'yaml';
import type { JsonObject, KubeObject } from '../model/kube.ts';
import { titleOf } from '../read/names.ts';

/** The reason of a quarantine: a problem of the object itself, or of one that belongs to it. */
type Reason = Pick<Problem, 'code' | 'object' | 'message'>;

/** The quarantined objects: Services with all their endpoints, and Nodes. The render leaves them out, so that the rest is valid. */
export class Quarantine {
  /** `Service shop/web`, `Node node-a` → reasons. */
  readonly #inside = new Map<string, Reason[]>();
  /** ServiceCIDRs, and slices without a Service, by title. */
  readonly #loose = new Set<string>();

  get isEmpty(): boolean {
    return this.#inside.size + this.#loose.size === 0;
  }

  get titles(): readonly string[] {
    return [...this.#inside.keys()].toSorted(compareText);
  }

  has(title: string): boolean {
    return this.#inside.has(title);
  }

  reasonsOf(title: string): readonly Reason[] {
    const reasons = new Map(
      (this.#inside.get(title) ?? []).map((reason) => [`${reason.code} ${reason.object}`, reason]),
    );
    return [...reasons].toSorted(([a], [b]) => compareText(a, b)).map(([, reason]) => reason);
  }

  /** @returns false when the object was quarantined before, so that leaving it out does not help */
  add(title: string, reason: Reason): boolean {
    const isNew = !this.#inside.has(title);
    appendTo(this.#inside, title, reason);
    return isNew;
  }

  /**
   * Quarantines the owner of a problem's object.
   * @param owners title of an object → its owner, undefined for an object without one
   * @returns false when the object is unknown or was quarantined before
   */
  addOwner(problem: Problem, owners: ReadonlyMap<string, string | undefined>): boolean {
    const { object } = problem;
    if (object === undefined || !owners.has(object)) return false;
    const owner = owners.get(object);
    if (owner !== undefined) return this.add(owner, problem);
    return this.#loose.size < this.#loose.add(object).size;
  }

  /** Whether an object is left out. */
  excludes(object: KubeObject): boolean {
    const owner = ownerOf(object);
    return owner === undefined ? this.#loose.has(titleOf(object)) : this.has(owner);
  }
}

/** The title of an object's owner: endpoints belong to their Service, other objects to themselves. Cached by identity. */
export const ownerOf = perObject((object: KubeObject): string | undefined => {
  // A ServiceCIDR has no rules, so leaving it out needs no entry.
  if (object.kind === 'ServiceCIDR') return undefined;
  if (object.kind !== 'EndpointSlice') {
    return object.kind === 'Endpoints' ? titleOf({ kind: 'Service', value: object.value }) : titleOf(object);
  }
  const { labels, namespace = 'default' } = (object.value['metadata'] ?? {}) as {
    readonly labels?: JsonObject;
    readonly namespace?: string;
  };
  const service = labels?.['kubernetes.io/service-name'];
  return typeof service === 'string' && service !== '' ? `Service ${namespace}/${service}` : undefined;
});

/** A quarantined object in `quarantine.yaml`. */
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

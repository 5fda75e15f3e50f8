import { compareText, type Problem } from '@sluice/bundle';
import type { ReadSlice } from '../read/slice.ts';

/** So many nodes may be known from endpoints alone: four times what Kubernetes is made for. */
export const strangersMax = 20_000;

/** Whose endpoints name nodes that nothing else names. */
interface Namer {
  /** The first of its slices that does. */
  readonly slice: ReadSlice;
  readonly names: Set<string>;
}

/** Nodes that only endpoints name, by the Service whose endpoints they are. */
export class Strangers {
  readonly #namers = new Map<string, Namer>();

  constructor(slices: readonly ReadSlice[], known: ReadonlyMap<string, unknown>) {
    for (const slice of slices)
      for (const part of slice.parts)
        for (const { nodeName } of part.endpoints)
          if (nodeName !== undefined && !known.has(nodeName)) this.#add(slice, nodeName);
  }

  #add(slice: ReadSlice, name: string): void {
    const namer = this.#namers.get(slice.service);
    if (namer === undefined) this.#namers.set(slice.service, { slice, names: new Set([name]) });
    else namer.names.add(name);
  }

  /** All names. */
  all(): ReadonlySet<string> {
    return new Set([...this.#namers.values()].flatMap(({ names }) => [...names]));
  }

  /**
   * Names of as many Services as there is room for, those that name few first: who makes up nodes is to be the one that has no room.
   * @param problems gains `INPUT_TOO_LARGE` for each of the others
   */
  bounded(problems: Problem[]): ReadonlySet<string> {
    const found = new Set<string>();
    const byCount = [...this.#namers].toSorted(
      ([a, { names: of }], [b, { names }]) => of.size - names.size || compareText(a, b),
    );
    for (const [service, { slice, names }] of byCount) {
      const more = [...names].filter((name) => !found.has(name));
      if (found.size + more.length > strangersMax) problems.push(tooMany(service, slice, names.size));
      else for (const name of more) found.add(name);
    }
    return found;
  }
}

function tooMany(service: string, slice: ReadSlice, count: number): Problem {
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    at: slice.object.origin.place([]),
    object: `${slice.kind} ${slice.key}`,
    message: `Cannot take ${count} nodes from the endpoints of Service ${service}: with them, more than ${strangersMax} would be known by name alone`,
    hint: 'Add the Nodes to the input (`kubectl get nodes -o yaml`), or look who makes up names of nodes',
  };
}

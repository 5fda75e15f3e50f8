import { compareText, type Problem, refusal } from '@sluice/netfilter';
import type { ReadSlice } from '../read/slice.ts';

/** The most nodes that only endpoints name: four times the size of cluster that Kubernetes supports. */
export const endpointOnlyNodesMax = 20_000;

/** A Service whose endpoints name such nodes. */
interface NamingService {
  /** The first of its slices that names one. */
  readonly slice: ReadSlice;
  readonly names: Set<string>;
}

/** Nodes that only endpoints name, by Service. */
export class EndpointOnlyNodes {
  readonly #namers = new Map<string, NamingService>();

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

  all(): ReadonlySet<string> {
    return new Set([...this.#namers.values()].flatMap(({ names }) => [...names]));
  }

  /**
   * The names within the limit. Services with few names come first, so that the limit hits a Service with invented names.
   * @param problems receives `INPUT_TOO_LARGE` for each Service beyond the limit
   */
  bounded(problems: Problem[]): ReadonlySet<string> {
    const found = new Set<string>();
    const byCount = [...this.#namers].toSorted(
      ([a, { names: of }], [b, { names }]) => of.size - names.size || compareText(a, b),
    );
    for (const [service, { slice, names }] of byCount) {
      const more = [...names].filter((name) => !found.has(name));
      if (found.size + more.length > endpointOnlyNodesMax) problems.push(tooMany(service, slice, names.size));
      else for (const name of more) found.add(name);
    }
    return found;
  }
}

const tooMany = (service: string, slice: ReadSlice, count: number): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot use ${count} node names in endpoints of Service ${service}: with them, more than ${endpointOnlyNodesMax} nodes have no Node object`,
    'Add the Nodes to the input (`kubectl get nodes -o yaml`), or correct the nodeName of the endpoints',
    { at: slice.object.origin.place([]), object: `${slice.kind} ${slice.key}` },
  );

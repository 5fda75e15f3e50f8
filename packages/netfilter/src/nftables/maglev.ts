import { hash } from 'node:crypto';
import { compareText } from '../problem.ts';
import type { MaglevSize } from './scheduler.ts';

/** The walk of one endpoint through the slots of a table. */
interface Walk {
  readonly endpoint: string;
  readonly weight: number;
  readonly step: number;
  slot: number;
  /** The round, times the greatest weight, in which it takes its next slot. */
  due: number;
}

/**
 * The table of a list: the endpoint of each slot. Endpoints take turns, each the next free slot of a walk of its own, whose start and
 * step are the first two words of the SHA-256 of its text. So the table follows from the endpoints and their weights alone, on every
 * node and in any order; and most slots stay where they are when an endpoint comes or goes.
 *
 * Maglev: A Fast and Reliable Software Network Load Balancer (NSDI 2016), section 3.4; turns by weight as in Envoy's `maglev_lb.cc`.
 * @param endpoints each once; those beyond `size` get no slot
 * @param weightOf 1 or more
 */
export function maglevTable(
  endpoints: readonly string[],
  weightOf: (endpoint: string) => number,
  size: MaglevSize,
): readonly string[] {
  if (endpoints.length === 0) return [];
  const walks = endpoints.toSorted(compareText).map((endpoint) => walkOf(endpoint, weightOf(endpoint), size));
  const most = walks.reduce((greatest, { weight }) => Math.max(greatest, weight), 1);
  const table = Array.from({ length: size }, (): string | undefined => undefined);
  let free: number = size;
  for (let round = 1; free > 0; round++) {
    for (const walk of walks) {
      if (free === 0) break;
      if (round * walk.weight < walk.due) continue;
      walk.due += most;
      while (table[walk.slot] !== undefined) walk.slot = (walk.slot + walk.step) % size;
      table[walk.slot] = walk.endpoint;
      free--;
    }
  }
  return table as readonly string[];
}

function walkOf(endpoint: string, weight: number, size: MaglevSize): Walk {
  const digest = hash('sha256', endpoint, 'buffer');
  return {
    endpoint,
    weight,
    slot: digest.readUInt32BE(0) % size,
    step: (digest.readUInt32BE(4) % (size - 1)) + 1,
    due: 0,
  };
}

import { type Family, type NftState, RunningTotal } from '@sluice/netfilter';
import { limits } from '../../limits.ts';

/** How full the map is that remembers the clients of session affinity in one family. */
export interface AffinityFill {
  readonly family: Family;
  readonly clients: number;
  /** How many it takes. */
  readonly size: number;
  /** Set where there are more than could be counted: `clients` is the least that it has. */
  readonly isAtLeast?: true;
}

/** Tells whether a state has frontends with session affinity: others remember no clients. Costs what differs from the last state. */
export class StickyFrontends {
  readonly #count = new RunningTotal<readonly string[], number>({
    none: 0,
    of: (_key, lines) => Number(lines.some((line) => line.startsWith('affinity '))),
    add: (a, b, sign) => a + sign * b,
  });

  areIn({ frontends }: Pick<NftState, 'frontends'>): boolean {
    return this.#count.of(frontends) > 0;
  }
}

/**
 * The reason of the alarm that a map is nearly full. A client that finds it full gets no endpoint (nftables-design.md, section 4).
 * @param isRaised whether the alarm is raised: it ends at a lower fill than that at which it begins
 * @returns undefined: no map is nearly full
 */
export function affinityAlarm(fills: readonly AffinityFill[], isRaised: boolean): string | undefined {
  const share = isRaised ? limits.affinityFillClear : limits.affinityFillAlarm;
  const full = fills.filter(({ clients, size }) => clients >= share * size);
  return full.length === 0
    ? undefined
    : `${full.map(describeFill).join(', ')}: when it is full, further clients of Services with session affinity get no endpoint`;
}

function describeFill({ family, clients, size, isAtLeast }: AffinityFill): string {
  const percent = Math.floor((100 * clients) / size);
  return `${isAtLeast ? 'more than ' : ''}${clients} of ${size} clients of session affinity are remembered in ${family} (${percent} %)`;
}

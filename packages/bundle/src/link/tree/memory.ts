import { dependsOnHost, type HostValues, type ResolvedSection } from '../../resolve.ts';
import { linkUnits, type Units, type UnitScope } from './unit.ts';

/**
 * Remembers how files were linked, by the identity of what they resolved to: `ResolveCache` gives the same sections for a
 * file that did not change. One for each caller that links again and again; it forgets a file when nobody else knows it.
 */
export class TreeMemory {
  /** Whether the files that were linked last can have endpoints in place: `canMarkLate`. */
  inPlace = true;
  readonly #known = new WeakMap<readonly ResolvedSection[], { readonly key: string; readonly units: Units }>();

  /** The file linked, with the first choice of names. */
  units(sections: readonly ResolvedSection[], scope: UnitScope): Units {
    const known = this.#known.get(sections);
    const key = keyOf(sections, scope);
    if (known?.key === key) return known.units;
    const units = linkUnits(sections, scope);
    this.#known.set(sections, { key, units });
    return units;
  }
}

/** Whether what a file says depends on the machine; few do, and one that did not change is not read again. */
export function asksHost(sections: readonly ResolvedSection[]): boolean {
  const known = hostAskers.get(sections);
  if (known !== undefined) return known;
  const asks = sections.some(({ rules }) => rules.some(dependsOnHost));
  hostAskers.set(sections, asks);
  return asks;
}

const hostAskers = new WeakMap<readonly ResolvedSection[], boolean>();

/** One string for each: a node has ten thousand files. */
const inPlaceKeys = { ipv4: 'ipv4 in place', ipv6: 'ipv6 in place' } as const;

/** What of the scope the result depends on. */
function keyOf(sections: readonly ResolvedSection[], { family, host, inPlace }: UnitScope): string {
  const key = inPlace ? inPlaceKeys[family] : family;
  return asksHost(sections) ? `${key} ${printHost(host)}` : key;
}

function printHost(host: HostValues): string {
  return JSON.stringify(Object.entries(host).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

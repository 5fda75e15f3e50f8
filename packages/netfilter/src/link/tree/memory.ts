import { perObject } from '../../per-object.ts';
import { dependsOnHost, type HostValues } from '../../rules/host-values.ts';
import type { ResolvedSection } from '../section.ts';
import { linkUnits, type LinkScope } from './unit.ts';
import type { FileUnits } from './program.ts';

/**
 * Caches linked files by the identity of their sections: `ResolveCache` returns the same sections for an unchanged file. Sections that
 * are collected as garbage are forgotten.
 */
export class TreeMemory {
  /** Whether the files linked last can have endpoints in place: `canMarkLate`. */
  inPlace = true;
  readonly #known = new WeakMap<readonly ResolvedSection[], { readonly key: string; readonly units: FileUnits }>();

  /** The linked file, with natural names. */
  units(sections: readonly ResolvedSection[], scope: LinkScope): FileUnits {
    const known = this.#known.get(sections);
    const key = keyOf(sections, scope);
    if (known?.key === key) return known.units;
    const units = linkUnits(sections, scope);
    this.#known.set(sections, { key, units });
    return units;
  }
}

/** Whether a file's rules depend on the machine, cached by identity; few do. */
export const sectionsDependOnHost = perObject((sections: readonly ResolvedSection[]): boolean =>
  sections.some(({ rules }) => rules.some(dependsOnHost)),
);

/** Shared strings: a node has ten thousand files. */
const inPlaceKeys = { ipv4: 'ipv4 in place', ipv6: 'ipv6 in place' } as const;

/** The part of the scope that the result depends on. */
function keyOf(sections: readonly ResolvedSection[], { family, host, inPlace }: LinkScope): string {
  const key = inPlace ? inPlaceKeys[family] : family;
  return sectionsDependOnHost(sections) ? `${key} ${printHost(host)}` : key;
}

function printHost(host: HostValues): string {
  return JSON.stringify(Object.entries(host).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

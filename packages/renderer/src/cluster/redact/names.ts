import { compareText } from '@sluice/bundle';

/** What names are told apart by: one name stands for two things of two sorts under two other names. */
export const sorts = [
  'namespace',
  'service',
  'slice',
  'node',
  'zone',
  'port',
  'host',
  'label',
  'value',
  'class',
  'range',
] as const;
export type Sort = (typeof sorts)[number];

/**
 * Other names in the place of names, such as `service-017`: numbered in their order, so that what is sorted by name stays in
 * its order. All names are entered first.
 */
export class OtherNames {
  private readonly found: ReadonlyMap<Sort, Set<string>> = new Map(sorts.map((sort) => [sort, new Set<string>()]));
  private readonly given = new Map<string, string>();

  enter(sort: Sort, name: string): void {
    this.found.get(sort)?.add(name);
  }

  /** Ends the entering. */
  number(): void {
    for (const [sort, names] of this.found) {
      const width = String(names.size).length;
      for (const [index, name] of [...names].toSorted(compareText).entries()) {
        this.given.set(`${sort} ${name}`, `${sort}-${String(index + 1).padStart(width, '0')}`);
      }
    }
  }

  /**
   * The name in the place of `name`.
   * @throws Error when it was not entered: a name must never come through
   */
  of(sort: Sort, name: string): string {
    const given = this.given.get(`${sort} ${name}`);
    if (given === undefined) throw new Error(`a ${sort} was not entered`);
    return given;
  }
}

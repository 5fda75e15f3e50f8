import { compareText } from '@sluice/netfilter';

/** The sorts of names: the same name in two sorts gets two replacements. */
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
  'config',
] as const;
export type Sort = (typeof sorts)[number];

/**
 * Replaces names by numbered ones, such as `service-017`, in their order, so that sorting by name is preserved. All names are entered
 * first.
 */
export class NameReplacer {
  private readonly found: ReadonlyMap<Sort, Set<string>> = new Map(sorts.map((sort) => [sort, new Set<string>()]));
  private readonly given = new Map<string, string>();

  enter(sort: Sort, name: string): void {
    this.found.get(sort)?.add(name);
  }

  /** Assigns the numbers, after all names are entered. */
  number(): void {
    for (const [sort, names] of this.found) {
      const width = String(names.size).length;
      for (const [index, name] of [...names].toSorted(compareText).entries()) {
        this.given.set(`${sort} ${name}`, `${sort}-${String(index + 1).padStart(width, '0')}`);
      }
    }
  }

  /**
   * The replacement of a name.
   * @throws Error for a name that was not entered: no original name may pass
   */
  of(sort: Sort, name: string): string {
    const given = this.given.get(`${sort} ${name}`);
    if (given === undefined) throw new Error(`a ${sort} was not entered`);
    return given;
  }
}

/** The sizes of a Maglev table: primes, so that every step from slot to slot visits all of them. */
export const maglevSizes = [251, 1009, 10_007] as const;
export type MaglevSize = (typeof maglevSizes)[number];

/** Shares within 10 % at 100 endpoints, for 1,009 elements of a frontend. */
export const maglevSizeDefault = 1009 satisfies MaglevSize;

/**
 * How a frontend chooses among its endpoints; left out: at random.
 *
 * `round-robin`: in turn, each node and frontend for itself. `source-hash`: by the client's address. `maglev 1009`: by the client's
 * address and port, in a table of 1,009 slots that follows from the endpoints alone.
 */
export type NftScheduler = 'round-robin' | 'source-hash' | `maglev ${MaglevSize}`;

const maglevForm = /^maglev (\d+)$/;

/** The size of the table of `maglev 1009`; undefined for another scheduler. */
export function maglevSizeOf(scheduler: NftScheduler | undefined): MaglevSize | undefined {
  return readMaglevSize(maglevForm.exec(scheduler ?? '')?.[1]);
}

/** @returns undefined for a size that no table has */
export const readMaglevSize = (text: string | undefined): MaglevSize | undefined =>
  maglevSizes.find((size) => String(size) === text);

/** Reads a scheduler as it is printed. @returns undefined for every other text, `random` too */
export function readNftScheduler(text: string): NftScheduler | undefined {
  if (text === 'round-robin' || text === 'source-hash') return text;
  const size = readMaglevSize(maglevForm.exec(text)?.[1]);
  return size === undefined ? undefined : `maglev ${size}`;
}

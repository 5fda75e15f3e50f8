import { ClusterFailure } from '../../cluster/failure.ts';
import type { Elector } from '../../cluster/watch/lease.ts';

/** The serials of the next releases. */
export interface SerialBlock {
  readonly next: number;
  readonly last: number;
  /** Whether the newest release that this process knows is the newest one of all processes. */
  readonly isNewest: boolean;
}

/** Finds the serials of the next releases. @param newest the serial of the newest release that this process knows; 0: none. @returns or why there are none, in words */
export type Serials = (newest: number) => Promise<SerialBlock | string>;

/** One process, or several that share what they push to: the newest release is there. */
export const oneAfterTheOther: Serials = async (newest) => ({ next: newest + 1, last: newest + 1, isNewest: true });

const blockSize = 1_000;

/**
 * The serials of processes that publish one after the other, each into a directory of its own. A block of serials belongs to one process:
 * none is used twice, whatever the others know.
 * @param noted the last serial of the newest block; undefined: there was none
 * @param newest see `Serials`
 * @returns a block whose `last` differs from `noted` has to be noted before one of its serials is used
 */
export function nextBlock(noted: number | undefined, newest: number): SerialBlock {
  const isNewest = noted === undefined || newest > noted - blockSize;
  const next = (isNewest ? newest : noted) + 1;
  const isInside = noted !== undefined && next <= noted;
  return { next, last: isInside ? noted : next + blockSize - 1, isNewest };
}

/**
 * The serials of processes of which the one with a Lease publishes. The Lease notes the last serial of the newest block.
 * @param lease its name, for messages
 */
export const serialsOfLease =
  (elector: Pick<Elector, 'note'>, lease: string): Serials =>
  async (newest) => {
    const found: { block?: SerialBlock } = {};
    const noted = (note: string): string => {
      if (!/^\d{0,12}$/.test(note)) return note;
      found.block = nextBlock(note === '' ? undefined : Number(note), newest);
      return String(found.block.last);
    };
    try {
      const note = await elector.note(noted);
      if (note === undefined) return `another process holds Lease ${lease}, or has changed it`;
      return (
        found.block ?? `the last serial in the annotations of Lease ${lease} is not a number: ${JSON.stringify(note)}`
      );
    } catch (error) {
      if (error instanceof ClusterFailure) return error.message;
      throw error;
    }
  };

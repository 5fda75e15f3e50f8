import { observationLimits } from './observation.ts';

/**
 * Whether lists and maps in an object of nft are nested no deeper than the limit, so that code which follows them does not run out of stack.
 * @param left how much deeper it may be
 */
export const isShallow = (value: unknown, left: number = observationLimits.nftDepthMax): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (left > 0 && Object.values(value).every((one: unknown) => isShallow(one, left - 1)));

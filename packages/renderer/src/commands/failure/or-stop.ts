import type { Problem } from '@sluice/netfilter';
import { Stopped } from './failure.ts';

/**
 * What was read.
 * @throws Stopped with the problem where nothing was
 */
export function orStop<T>(read: T | Problem): Exclude<T, Problem> {
  if (typeof read === 'object' && read !== null && 'code' in read && 'hint' in read) throw new Stopped(read);
  return read as Exclude<T, Problem>;
}

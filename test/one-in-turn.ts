import { inTurn, landing, type Tier, tier } from '@sluice/testing';

/**
 * One of several, such as data planes, at each landing: for tests of which each one shows the same on all of them. The larger tiers run
 * all of them.
 * @param all at most four
 * @param name of the tests, by which they begin with different ones: at each landing every one of `all` has some tests
 */
export function oneInTurn<T>(all: readonly T[], name: string, at: Tier = tier, now = landing): readonly T[] {
  const first = Array.from(name, (letter) => letter.charCodeAt(0)).reduce((sum, code) => sum + code, 0);
  // Slow files run at each second landing: the even numbers, the odd ones and all together reach each remainder by 2, 3 and 4.
  return inTurn(all, all.length, at, first + Math.floor(now / 2) + 2 * (now % 2));
}

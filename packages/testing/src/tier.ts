import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The tiers of tests, from the smallest to the largest; each includes the ones before it. `test/README.md` describes them. */
export const tiers = ['quick', 'test', 'all', 'soak'] as const;
export type Tier = (typeof tiers)[number];

/** The tier of this run: `./dev test --quick`, `./dev test`, `./dev test --all` and `./dev soak` set SLUICE_TIER. */
export const tier: Tier = readTier(process.env['SLUICE_TIER'] ?? 'test');

/** Whether this is `./dev share`: files of tier all in a quarter of an hour. Files that would take longer do less then. */
export const isShare = process.env['SLUICE_SHARE'] === '1';

/** @throws for a text that is not a tier: a run of another size than requested proves nothing */
export function readTier(text: string): Tier {
  const found = tiers.find((one) => one === text);
  if (found === undefined) throw new Error(`SLUICE_TIER=${text} is not a tier: ${tiers.join(', ')}`);
  return found;
}

/** A value per tier; the default of a tier is that of the next smaller one. */
export type ByTier<T> = { readonly quick: T } & { readonly [name in Tier]?: T };

/** The value for this run's tier, such as a number of rounds, or the iptables stores to run on. */
export function atTier<T>(values: ByTier<T>, at: Tier = tier): T {
  const reached = tiers.slice(0, tiers.indexOf(at) + 1);
  return reached.reduce<T>((value, one) => (values[one] === undefined ? value : values[one]), values.quick);
}

/** Whether this run's tier is that one or a larger one. */
export const reaches = (wanted: Tier, at: Tier = tier): boolean => tiers.indexOf(at) >= tiers.indexOf(wanted);

/**
 * The number of runs of a property test: a tenth of `count` in tier quick, `count` in test and all, 30 times as many in soak.
 * @param count the runs that make the property credible, by the rarity of inputs that would break it
 */
export function runs(count: number, at: Tier = tier): { readonly numRuns: number } {
  return { numRuns: atTier({ quick: Math.ceil(count / 10), test: count, soak: count * 30 }, at) };
}

/** The number in `test/landing`. */
export const landing = Number(readFileSync(join(import.meta.dirname, '../../../test/landing'), 'utf8'));

/**
 * Those of many that tier test runs in this landing: after `turns` landings each had its turn. The larger tiers run all of them.
 * @param turns at least 1
 */
export const inTurn = <T>(all: readonly T[], turns: number, at: Tier = tier, now = landing): readonly T[] =>
  reaches('all', at) ? all : all.filter((_one, index) => index % turns === now % turns);

import { tier } from './tier.ts';

/** The seed of every run except a soak, which draws its own; SLUICE_SEED overrides both. */
const defaultSeed = 114_446_038;

// The first process of a run decides; the others inherit its environment. So a second try has the same input as the first.
process.env['SLUICE_SEED'] ??= String(tier === 'soak' ? Math.floor(Math.random() * 2 ** 31) : defaultSeed);

/** The seed of everything random in this run; a failed run prints it, and SLUICE_SEED sets it. */
export const seed: number = readSeed(process.env['SLUICE_SEED']);

/** @throws for a text that is not a whole number from 0 to 2^31 - 1 */
export function readSeed(text: string): number {
  const value = Number(text);
  if (!/^\d{1,10}$/.test(text) || value > 2 ** 31 - 1)
    throw new Error(`SLUICE_SEED=${text} is not a whole number from 0 to ${2 ** 31 - 1}`);
  return value;
}

/** The command that replays a test file with the same random input. @param file below the checkout */
export function replay(file: string): string {
  const option = { quick: ' --quick', test: '', all: ' --all', soak: ' --soak' }[tier];
  return `SLUICE_SEED=${seed} ./dev test${option} ${file}`;
}

/** A generator of numbers in [0, 1) from a seed (mulberry32). */
export function randomOf(from: number): () => number {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

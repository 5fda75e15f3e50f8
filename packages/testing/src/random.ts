import { tier } from './tier.ts';

/** Of every run but a soak, which draws its own: the same input each time, unless SLUICE_SEED asks for other. */
const usualSeed = 114_446_038;

// The first process of a run decides; the others have its environment. So a second try draws the same input as the first.
process.env['SLUICE_SEED'] ??= String(tier === 'soak' ? Math.floor(Math.random() * 2 ** 31) : usualSeed);

/** The seed of everything random in this run; SLUICE_SEED, which a failed run prints, draws the same again. */
export const seed: number = readSeed(process.env['SLUICE_SEED']);

/** @throws where the text is no whole number from 0 to 2^31 - 1 */
export function readSeed(text: string): number {
  const value = Number(text);
  if (!/^\d{1,10}$/.test(text) || value > 2 ** 31 - 1)
    throw new Error(`SLUICE_SEED=${text} is not a whole number from 0 to ${2 ** 31 - 1}`);
  return value;
}

/** The command that runs a test file again with the same random input. @param file below the checkout */
export function replay(file: string): string {
  const option = { quick: ' --quick', test: '', all: ' --all', soak: ' --soak' }[tier];
  return `SLUICE_SEED=${seed} ./dev test${option} ${file}`;
}

/** Numbers in [0, 1) that a seed decides (mulberry32). */
export function randomOf(from: number): () => number {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Cells that fail today, each with what it waits for: one that passes fails the test, so that the list shrinks. */
export const knownBad: ReadonlyMap<string, string> = new Map();

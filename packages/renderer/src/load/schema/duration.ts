/** Seconds per unit, as Go's `time.ParseDuration` names them. */
const units: Readonly<Record<string, number>> = {
  ns: 1e-9,
  us: 1e-6,
  µs: 1e-6,
  μs: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
};
const part = /([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)/gy;

/**
 * Reads a duration as Go writes it: `24h0m0s`, `1.5h`, `250ms`, `-30s`, `0`.
 * @returns seconds, possibly with a fraction; undefined when Go would refuse the text
 */
export function parseGoDuration(text: string): number | undefined {
  const sign = text.startsWith('-') ? -1 : 1;
  const body = /^[+-]/.test(text) ? text.slice(1) : text;
  if (body === '0') return 0;
  let seconds = 0;
  let end = 0;
  for (const match of body.matchAll(part)) {
    seconds += Number(match[1]) * (units[match[2] ?? ''] ?? 0);
    end = match.index + match[0].length;
  }
  // Go keeps durations in 64 bits of nanoseconds: about 292 years.
  if (end === 0 || end !== body.length || seconds > 9_223_372_036) return undefined;
  return sign * seconds;
}

/** Prints whole seconds as Go does: `86400` is `24h0m0s`, `90` is `1m30s`. */
export function printGoDuration(seconds: number): string {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (h > 0) return `${h}h${m}m${s}s`;
  return m > 0 ? `${m}m${s}s` : `${s}s`;
}

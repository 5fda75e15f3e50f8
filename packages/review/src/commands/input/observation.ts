import { type Observation, observationLimits, observationProblem, readObservation } from '@sluice/bundle';
import { printStatements } from '@sluice/netfilter';
import { readRegular } from '@sluice/transport/files/regular.ts';
import type { PlaceOf } from '../../observed/place.ts';
import { orStop, reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { statSync } from 'node:fs';

/** Reads a file of `sluiced observe`. @throws Stopped when it cannot be read */
export function observationAt(path: string): { readonly seen: Observation; readonly text: string } {
  const size = reading(path, () => statSync(path).size);
  const bytes = reading(path, () => readRegular(path, Math.min(size, observationLimits.fileBytesMax)));
  if (bytes === undefined || typeof bytes === 'string')
    throw new Stopped(observationProblem(`Cannot read ${path}: ${bytes ?? 'it does not exist'}`));
  const text = bytes.toString('utf8');
  const seen = orStop(readObservation(path, text));
  return { seen, text };
}

/** Finds the lines of rules in the file: it has a line for each. The file is searched once, when the first place is asked for. */
export function placesIn(path: string, text: string): PlaceOf {
  let lines: ReadonlyMap<string, number> | undefined;
  return (rule) => {
    const line = (lines ??= linesOfRules(text)).get(rule);
    return line === undefined ? undefined : `${path}:${line}`;
  };
}

/** The number of the first line of each rule, by the text with which comparisons name it. */
function linesOfRules(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let line = 1;
  for (let start = 0; start < text.length; line++) {
    const end = text.indexOf('\n', start);
    const stop = end < 0 ? text.length : end;
    const rule = ruleIn(text.slice(start, text[stop - 1] === ',' ? stop - 1 : stop));
    if (rule !== undefined && !found.has(rule)) found.set(rule, line);
    start = stop + 1;
  }
  return found;
}

/** `"-A FORWARD …"`, or `{"rule":{"chain":"forward","expr":[…]}}` of nftables. */
function ruleIn(line: string): string | undefined {
  if (!line.startsWith('"-A ') && !line.startsWith('{"rule":')) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'string') return value;
    const { expr } = (value as { readonly rule: { readonly expr?: unknown } }).rule;
    return Array.isArray(expr) ? printStatements(expr) : undefined;
  } catch {
    return undefined;
  }
}

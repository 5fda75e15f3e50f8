import { isProblem, type Observation, observationLimits, observationProblem, readObservation } from '@sluice/bundle';
import { readRegular } from '../../load/regular.ts';
import type { PlaceOf } from '../../review/observed/place.ts';
import { reading, Stopped } from '../failure/failure.ts';
import { statSync } from 'node:fs';

/** Reads a file of `sluiced observe`. @throws Stopped when it cannot be read */
export function observationAt(path: string): { readonly seen: Observation; readonly text: string } {
  const size = reading(path, () => statSync(path).size);
  const bytes = reading(path, () => readRegular(path, Math.min(size, observationLimits.fileBytesMax)));
  if (bytes === undefined || typeof bytes === 'string')
    throw new Stopped(observationProblem(`Cannot read ${path}: ${bytes ?? 'it does not exist'}`));
  const text = bytes.toString('utf8');
  const seen = readObservation(path, text);
  if (isProblem(seen)) throw new Stopped(seen);
  return { seen, text };
}

/** Finds the lines of rules in the file: it has a line for each. */
export function placesIn(path: string, text: string): PlaceOf {
  return (rule) => {
    const at = text.indexOf(`\n${JSON.stringify(rule)}`);
    return at < 0 ? undefined : `${path}:${text.slice(0, at + 1).split('\n').length}`;
  };
}

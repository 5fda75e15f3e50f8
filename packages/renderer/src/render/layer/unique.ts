import { compareText, type Place, type Problem, refusal } from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import { sameMeaning } from '../model/memo.ts';
import { titleOf } from '../read/names.ts';

/** An item of which a layer may have only one per key. */
interface KeyedObject {
  readonly object: KubeObject | undefined;
}

/**
 * The objects of one layer by key. Equal duplicates are accepted; different ones are an error that names both places, and the first one
 * by file, line and column is kept.
 */
export function uniqueByKey<T extends KeyedObject>(
  items: readonly T[],
  keyOf: (item: T) => string,
  problems: Problem[],
): Map<string, T> {
  const unique = new Map<string, T>();
  const repeated = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const other = unique.get(key);
    const group = repeated.get(key);
    if (other === undefined) unique.set(key, item);
    else if (group) group.push(item);
    else repeated.set(key, [other, item]);
  }
  for (const [key, group] of repeated) {
    const [first, ...others] = group.toSorted(byPlace);
    if (first === undefined) continue;
    unique.set(key, first);
    for (const other of others) if (!sameMeaning(first, other)) problems.push(conflict(first, other));
  }
  return unique;
}

function conflict(first: KeyedObject, second: KeyedObject): Problem {
  const title = second.object ? titleOf(second.object) : 'object';
  return refusal(
    'OBJECT_CONFLICT',
    `Cannot use two versions of ${title}: ${printPlace(placeOf(first))} has different fields`,
    'Remove one of the two, or pass the changed one with -f and the other with --base',
    { at: placeOf(second), object: title },
  );
}

const nowhere: Place = { file: '', line: 0, column: 0 };

function placeOf(item: KeyedObject): Place {
  return item.object?.origin.place([]) ?? nowhere;
}

/** `shop.yaml:41:7`. */
export function printPlace(place: Place): string {
  return `${place.file}:${place.line}:${place.column}`;
}

function byPlace(a: KeyedObject, b: KeyedObject): number {
  const [p, q] = [placeOf(a), placeOf(b)];
  return compareText(p.file, q.file) || p.line - q.line || p.column - q.column;
}

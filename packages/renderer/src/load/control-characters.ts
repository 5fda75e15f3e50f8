import type { Json, JsonObject, Path } from '../render/model/kube.ts';

/** C0, DEL and C1 (general category Cc): not allowed in any field that Sluice reads, because they can forge terminal output. */
const control = /\p{Cc}/u;
const controlInFreeText = /[^\P{Cc}\t\n\r]/u;

/**
 * Fields where tabs and newlines are usual: annotations, managed fields, conditions of a Node, and the data of kube-proxy's ConfigMap,
 * which is a separate document.
 */
function isFreeText(path: Path): boolean {
  const [first, second] = path;
  return (
    (first === 'metadata' && (second === 'annotations' || second === 'managedFields')) ||
    (first === 'status' && second === 'conditions') ||
    first === 'data'
  );
}

export interface ControlCharacter {
  readonly path: Path;
  /** As `U+001B`. */
  readonly name: string;
}

/** Finds all keys and strings of an object with a control character, each with the first one. */
export function findControlCharacters(object: JsonObject): ControlCharacter[] {
  const found: ControlCharacter[] = [];
  search(object, [], found);
  return found;
}

function search(value: Json, path: (string | number)[], found: ControlCharacter[]): void {
  if (typeof value === 'string') return check(value, path, found);
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) return value.forEach((item: Json, index) => step(item, index, path, found));
  for (const [key, child] of Object.entries(value)) {
    path.push(key);
    check(key, path, found);
    path.pop();
    step(child, key, path, found);
  }
}

function step(value: Json, key: string | number, path: (string | number)[], found: ControlCharacter[]): void {
  path.push(key);
  search(value, path, found);
  path.pop();
}

function check(text: string, path: Path, found: ControlCharacter[]): void {
  if (!control.test(text)) return;
  const match = (isFreeText(path) ? controlInFreeText : control).exec(text);
  if (match === null) return;
  const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
  found.push({ path: [...path], name: `U+${code}` });
}

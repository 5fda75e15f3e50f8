import { copyFileSync } from 'node:fs';
import * as v from 'valibot';
import type { Generation, StoredGeneration } from '../ports/journal.ts';
import { asidePath, readIfWhole } from './files.ts';
import { getState, isManifest } from './manifest.ts';
import type { Store } from './store.ts';
import { emptyRecord, generation as generationForm, type GenerationRecord, type NodeRecord } from './record.ts';

/**
 * What is left of a node's state when both slots of its journal are damaged: the store, with every kept generation, and
 * `current/generation.json`, which names the last active one. Open changes and quarantined versions are lost.
 */

const activeGenerationName = 'generation.json';

/** The file that names the generation of the directory `current`. */
export function activeGenerationFile(
  { number, revision, version, partial }: Generation,
  manifest: string,
): Record<string, string> {
  return { [activeGenerationName]: `${JSON.stringify({ number, revision, version, manifest, partial })}\n` };
}

/**
 * @param current the directory of the text
 * @returns the generation of the text; undefined where there is none, or the file is damaged
 * @throws StateError when it cannot be read now
 */
export function lastActive(current: string): GenerationRecord | undefined {
  const [text] = [current, asidePath(current)].flatMap((one) => readIfWhole(`${one}/${activeGenerationName}`) ?? []);
  try {
    return v.parse(generationForm, JSON.parse(text ?? ''));
  } catch {
    return undefined;
  }
}

/**
 * Yields every generation that the store still has whole, one at a time, since each may be large: first the last active one, then the
 * others by their digests. The numbers of the others are lost: each gets the one after the last.
 */
export function* remainsOf(directory: string, store: Store): Generator<StoredGeneration> {
  const last = lastActive(`${directory}/current`);
  const state = last && getState(last.manifest, store);
  if (last && state) {
    const { number, revision, version, partial } = last;
    yield { generation: { number, revision, version, state, ...(partial ? { partial } : {}) }, wasActive: true };
  }
  for (const digest of store.digests) {
    if (digest === last?.manifest || !isManifest(store.get(digest))) continue;
    const other = getState(digest, store);
    const found = { number: (last?.number ?? 0) + 1, revision: 0, version: 'recognised' };
    if (other) yield { generation: { ...found, state: other }, wasActive: false };
  }
}

/** The record of a node that continues from one generation, of which nothing else is known. */
export function recordFrom(node: string, current: GenerationRecord): NodeRecord {
  return { ...emptyRecord(node), current, kept: [current], next: current.number + 1 };
}

/** Keeps the damaged file for later diagnosis. Without room for it the node continues all the same. */
export function keepDamaged(path: string): void {
  try {
    copyFileSync(path, `${path}.damaged`);
  } catch {
    // Its content cannot be read anyway.
  }
}

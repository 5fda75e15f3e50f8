import { copyFileSync } from 'node:fs';
import * as v from 'valibot';
import type { Generation, StoredGeneration } from '../rollout/ports.ts';
import { readIfWhole } from '../store/files.ts';
import { getState, isManifest } from '../store/manifest.ts';
import type { Store } from '../store/store.ts';
import { freshRecord, generation as generationForm, type GenerationRecord, type NodeRecord } from './record.ts';

/**
 * What is left of a node's memory when both slots of its journal are damaged: the store, which holds every generation that was kept,
 * and `current/generation.json`, which says which of them stood last. It is not said there what was open or quarantined.
 */

const standsName = 'generation.json';

/** The file that says which generation the directory `current` is the text of. */
export function standsFile({ number, revision, version }: Generation, manifest: string): Record<string, string> {
  return { [standsName]: `${JSON.stringify({ number, revision, version, manifest })}\n` };
}

/**
 * The generation that the text for people is of; undefined where there is none, or the file is damaged.
 * @param current the directory of the text
 * @throws StateError when it cannot be read now, and nobody knows
 */
export function stoodLast(current: string): GenerationRecord | undefined {
  const text = readIfWhole(`${current}/${standsName}`);
  try {
    return v.parse(generationForm, JSON.parse(text ?? ''));
  } catch {
    return undefined;
  }
}

/**
 * Every generation that the store still holds whole, one after the other, since each may be large: first the one that stood last, then
 * the others by their digests. Numbers of the others are lost: they count as the one after the last.
 */
export function* remainsOf(directory: string, store: Store): Generator<StoredGeneration> {
  const last = stoodLast(`${directory}/current`);
  const state = last && getState(last.manifest, store);
  if (last && state) {
    const { number, revision, version } = last;
    yield { generation: { number, revision, version, state }, wasActive: true };
  }
  for (const digest of store.digests) {
    if (digest === last?.manifest || !isManifest(store.get(digest))) continue;
    const other = getState(digest, store);
    const found = { number: (last?.number ?? 0) + 1, revision: 0, version: 'recognised' };
    if (other) yield { generation: { ...found, state: other }, wasActive: false };
  }
}

/** The record of a node that goes on from one generation, of which nothing else is known. */
export function recordFrom(node: string, current: GenerationRecord): NodeRecord {
  return { ...freshRecord(node), current, kept: [current], next: current.number + 1 };
}

/** Keeps the damaged file for whoever wants to know what happened. Without room for it the node goes on all the same. */
export function keepDamaged(path: string): void {
  try {
    copyFileSync(path, `${path}.damaged`);
  } catch {
    // What it held cannot be read anyway.
  }
}

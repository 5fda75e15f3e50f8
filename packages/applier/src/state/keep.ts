import { limits } from '../limits.ts';
import type { GenerationRecord, HistoryEntry, NodeRecord } from './record.ts';

/** Bounds for the growing parts of the journal, so that a record fits into its slot. */

/** The newest generations, and the first: the state before Sluice remains a target of rollbacks. */
export function recent(kept: readonly GenerationRecord[]): GenerationRecord[] {
  const [first, ...others] = kept.toSorted((a, b) => a.number - b.number);
  return first ? [first, ...others.slice(-limits.generationsKept)] : [];
}

/**
 * Merges endpoint updates, which come every few seconds: one entry represents a whole run. An entry whose version failed before stays,
 * because it tells that the version was accepted after all.
 */
export function updated(history: readonly HistoryEntry[], to: GenerationRecord, at: string): HistoryEntry[] {
  const entry: HistoryEntry = { at, what: 'updated', generation: to.number, version: to.version };
  const last = history.at(-1);
  const isRow = last?.what === 'updated' && last.generation === to.number;
  const failed = history.some(({ what, version }) => what === 'rolled-back' && version === last?.version);
  return [...(isRow && !failed ? history.slice(0, -1) : history), entry];
}

export function remember(
  quarantined: Readonly<Record<string, string>>,
  version: string,
  because: string,
): Record<string, string> {
  const entries = [
    ...Object.entries(quarantined).filter(([one]) => one !== version),
    [version, shortened(because)] as const,
  ];
  return Object.fromEntries(entries.slice(-limits.quarantinedMax));
}

export function without(quarantined: Readonly<Record<string, string>>, version: string): Record<string, string> {
  return Object.fromEntries(Object.entries(quarantined).filter(([one]) => one !== version));
}

export function shortened(text: string): string {
  return text.length > limits.reasonCharactersMax ? `${text.slice(0, limits.reasonCharactersMax)}…` : text;
}

/** Drops the oldest history of a record that is too large for its slot. */
export function fitted(record: NodeRecord, bytesMax: number): { readonly saved: NodeRecord; readonly text: string } {
  let saved = record;
  let text = JSON.stringify(saved);
  while (Buffer.byteLength(text) > bytesMax && saved.history.length > 0) {
    saved = { ...saved, history: saved.history.slice(Math.ceil(saved.history.length / 4)) };
    text = JSON.stringify(saved);
  }
  return { saved, text };
}

import { limits } from '../limits.ts';
import type { GenerationRecord, HistoryEntry, NodeRecord } from './record.ts';

/** What the journal keeps of what grows: bounded, so that a record fits into its slot. */

/** The last ones, and the first: what was there before Sluice stays the way out. */
export function recent(kept: readonly GenerationRecord[]): GenerationRecord[] {
  const [first, ...others] = kept.toSorted((a, b) => a.number - b.number);
  return first ? [first, ...others.slice(-limits.generationsKept)] : [];
}

/**
 * Updates of endpoints come every few seconds: one entry stands for all of a row. One whose version failed before stays, as it says
 * that the version was taken after all.
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

/** A record that has grown too large for its slot loses the oldest of its history. */
export function fitted(record: NodeRecord, bytesMax: number): { readonly saved: NodeRecord; readonly text: string } {
  let saved = record;
  let text = JSON.stringify(saved);
  while (Buffer.byteLength(text) > bytesMax && saved.history.length > 0) {
    saved = { ...saved, history: saved.history.slice(Math.ceil(saved.history.length / 4)) };
    text = JSON.stringify(saved);
  }
  return { saved, text };
}

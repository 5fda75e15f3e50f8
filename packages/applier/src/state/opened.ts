import { mkdirSync } from 'node:fs';
import { discardParts, finishPublication, writing } from './files.ts';
import { StateError } from './state-error.ts';
import { lostBecause, peek } from './peek.ts';
import { freshRecord, type NodeRecord } from './record.ts';
import { allocateSlots, readSlots } from './slots.ts';

/** The content of a journal. */
export interface OpenedJournal {
  /** A fresh record where there is none, or none that can be read. */
  readonly record: NodeRecord;
  readonly sequence: number;
  /** Why an existing journal cannot be read. */
  readonly lost: string | undefined;
}

/** Our files in a state directory, which may be shared with other programs. */
const ownFiles: ReadonlySet<string> = new Set([
  'journal',
  'current',
  'decision.json',
  'declined.json',
  'generations.json',
  'networks.json',
  'repairs.json',
  'health.json',
  'release.json',
  'receipts.json',
]);

/** How a state directory is opened. */
export interface OpenOptions {
  /** false: both slots may be damaged, or the file may be missing. */
  readonly whole: boolean;
  /** Another process may be running: nothing is created or discarded. */
  readonly isShared: boolean;
}

/**
 * Opens, or creates, the journal of a state directory.
 * @throws StateError when it cannot be read, or belongs to another node
 */
export function openRecord(directory: string, node: string, { whole, isShared }: OpenOptions): OpenedJournal {
  if (!isShared) writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
  if (!isShared) finishPublication(`${directory}/current`);
  const path = `${directory}/journal`;
  const fresh = freshRecord(node);
  const lost = whole ? undefined : lostBecause(directory);
  if (lost !== undefined) return { record: fresh, sequence: 0, lost };
  const known = peek(directory);
  if (known && known.node !== node) {
    const hint = 'Use another state directory, or the node name that this one was created for';
    throw new StateError('NODE_STATE_INVALID', `it belongs to node ${known.node}, not to ${node}`, hint);
  }
  if (!isShared) {
    discardParts(directory, undefined, (name) => ownFiles.has(name));
    writing(path, () => allocateSlots(path));
  }
  const read = readSlots(path);
  return { record: known ?? fresh, sequence: read.kind === 'record' ? read.sequence : 0, lost: undefined };
}

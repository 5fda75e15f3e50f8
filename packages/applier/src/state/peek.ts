import { accessSync, constants } from 'node:fs';
import { wholeNames } from './files.ts';
import { StateError } from './state-error.ts';
import { type NodeRecord, readRecord } from './record.ts';
import { lastActive } from './remains.ts';
import { readSlots } from './slots.ts';

/** The content of a journal. */
interface JournalRead {
  /** undefined where there is none, or none that can be read. */
  readonly record: NodeRecord | undefined;
  readonly sequence: number;
  /** Why an existing journal cannot be read. */
  readonly lost: string | undefined;
}

/**
 * Reads the journal of a state directory.
 * @throws StateError when it cannot be read now, or its record has another form
 */
export function readJournal(directory: string): JournalRead {
  const path = `${directory}/journal`;
  const read = readSlots(path);
  if (read.kind !== 'record') return { record: undefined, sequence: 0, lost: lostBecause(directory, path, read.kind) };
  return { record: readRecord(read.text, path), sequence: read.sequence, lost: undefined };
}

/**
 * Reads the newest record, for commands that take no lock.
 * @returns undefined before the first
 * @throws StateError when it cannot be read
 */
export function peek(directory: string): NodeRecord | undefined {
  checkReadable(directory);
  const { record, lost } = readJournal(directory);
  if (lost !== undefined) throw lostError(lost);
  return record;
}

/**
 * @returns the rule store of a node's rules; undefined before the first change and after a cleanup
 * @throws StateError when it cannot be read
 */
export function pinnedStore(directory: string): NodeRecord['backend'] {
  const record = peek(directory);
  return record?.current ? record.backend : undefined;
}

/**
 * Detects a lost journal: both slots are damaged, or the file was deleted or emptied. The file is created in full size before the first
 * program is stored, so a store with programs but no journal has lost it.
 * @returns why it is lost; undefined when the node has never run Sluice
 * @throws StateError when it cannot be read now
 */
function lostBecause(directory: string, path: string, kind: 'missing' | 'fresh' | 'damaged'): string | undefined {
  if (kind === 'damaged') return `both slots of ${path} are damaged`;
  const hadRules = lastActive(`${directory}/current`) !== undefined;
  if (kind === 'fresh') return hadRules ? `${path} has no record, but the node has had rules` : undefined;
  const hasPrograms = hadRules || wholeNames(`${directory}/store`).length > 0;
  return hasPrograms ? `${path} is missing, but the store has programs` : undefined;
}

/**
 * Without permission to read it, a directory would seem to be empty.
 * @throws StateError without permission
 */
export function checkReadable(directory: string): void {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT')
      throw new StateError('NODE_STATE_INVALID', `it cannot be read: ${message}`, 'Run it as root');
  }
}

export function lostError(lost: string): StateError {
  const hint =
    'The kernel was not changed and keeps its rules. `sluiced run`, `boot` and `apply` continue from the rules in the kernel, if the store has them; otherwise restore the file from a backup';
  return new StateError('NODE_STATE_INVALID', lost, hint);
}

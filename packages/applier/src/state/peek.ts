import { accessSync, constants, existsSync } from 'node:fs';
import { isThere, readWithRetry, wholeNames } from './files.ts';
import { StateError } from './state-error.ts';
import { type NodeRecord, readRecord } from './record.ts';
import { stoodLast } from './remains.ts';
import { readSlots } from './slots.ts';

/**
 * Reads the newest record, for commands that take no lock.
 * @returns undefined before the first
 * @throws StateError when it cannot be read
 */
export function peek(directory: string): NodeRecord | undefined {
  checkReadable(directory);
  const path = `${directory}/journal`;
  const read = readSlots(path);
  const lost = lostBecause(directory, read);
  if (lost !== undefined) throw damaged(lost);
  if (read.kind === 'record') return readRecord(read.text, path);
  if (existsSync(`${directory}/state.json`)) throw oldForm(directory);
  return undefined;
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
 * @param read the content of its slots
 * @returns why it is lost; undefined when it is whole, or the node has never run Sluice
 * @throws StateError when it cannot be read now
 */
export function lostBecause(directory: string, read = readSlots(`${directory}/journal`)): string | undefined {
  const path = `${directory}/journal`;
  if (read.kind === 'damaged') return `both slots of ${path} are damaged`;
  if (read.kind === 'record') return undefined;
  const isMissing = readWithRetry(path, () => isThere(path)) === false;
  if (!isMissing && stoodLast(`${directory}/current`)) return `${path} has no record, but the node has had rules`;
  const isOld = existsSync(`${directory}/state.json`);
  return isMissing && !isOld && hasPrograms(directory) ? `${path} is missing, but the store has programs` : undefined;
}

function hasPrograms(directory: string): boolean {
  if (stoodLast(`${directory}/current`)) return true;
  return wholeNames(`${directory}/store`).length > 0;
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

function damaged(lost: string): StateError {
  const hint =
    'The kernel was not changed and keeps its rules. `sluiced run`, `boot` and `apply` continue from the rules in the kernel, if the store has them; otherwise restore the file from a backup';
  return new StateError('NODE_STATE_INVALID', lost, hint);
}

function oldForm(directory: string): StateError {
  const hint =
    'Run `sluiced cleanup` of the version that wrote it, or move the directory away if none of its rules are in the kernel';
  return new StateError('NODE_STATE_INVALID', `${directory}/state.json was written by an older sluiced`, hint);
}

import { accessSync, constants, existsSync } from 'node:fs';
import { isThere, readPatiently, wholeNames } from '../store/files.ts';
import { StateError } from '../store/state-error.ts';
import { type NodeRecord, readRecord } from './record.ts';
import { stoodLast } from './remains.ts';
import { readSlots } from './slots.ts';

/**
 * The newest record, for commands that only look; undefined before the first.
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
 * The rule store that a node's rules are in; undefined before the first change and after a cleanup.
 * @throws StateError when that cannot be read
 */
export function pinnedStore(directory: string): NodeRecord['backend'] {
  const record = peek(directory);
  return record?.current ? record.backend : undefined;
}

/**
 * Why the journal of a node that has run Sluice cannot be read, in words: both slots are damaged, or somebody deleted the file. It is
 * made, in its full size, before the first program is stored, so a store with programs beside no journal has lost it.
 * @param read what its slots hold
 * @returns undefined when it is whole, or the node has never run Sluice
 * @throws StateError when that cannot be read now
 */
export function lostBecause(directory: string, read = readSlots(`${directory}/journal`)): string | undefined {
  const path = `${directory}/journal`;
  if (read.kind === 'damaged') return `both slots of ${path} are damaged`;
  const isMissing = readPatiently(path, () => isThere(path)) === false;
  const isOld = existsSync(`${directory}/state.json`);
  return isMissing && !isOld && hasPrograms(directory) ? `${path} is missing beside stored programs` : undefined;
}

function hasPrograms(directory: string): boolean {
  if (stoodLast(`${directory}/current`)) return true;
  return wholeNames(`${directory}/store`).length > 0;
}

/**
 * To a user who may not look into it, a directory seems to be empty.
 * @throws StateError for such a user
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
    'The kernel was not touched and keeps its rules. `sluiced run`, `boot` and `apply` go on from what the kernel holds, where the store has it; else restore the file from a backup';
  return new StateError('NODE_STATE_INVALID', lost, hint);
}

function oldForm(directory: string): StateError {
  const hint =
    'Run `sluiced cleanup` of the release that wrote it, or move the directory away if none of its rules are in the kernel';
  return new StateError('NODE_STATE_INVALID', `${directory}/state.json is of an older sluiced`, hint);
}

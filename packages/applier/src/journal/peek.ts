import { accessSync, constants, existsSync } from 'node:fs';
import { StateError } from '../store/state-error.ts';
import { type NodeRecord, readRecord } from './record.ts';
import { readSlots } from './slots.ts';

/**
 * The newest record, for commands that only look; undefined before the first.
 * @throws StateError when it cannot be read
 */
export function peek(directory: string): NodeRecord | undefined {
  checkReadable(directory);
  const path = `${directory}/journal`;
  const read = readSlots(path);
  if (read.kind === 'record') return readRecord(read.text, path);
  if (read.kind === 'damaged') throw damaged(path);
  if (existsSync(`${directory}/state.json`)) throw oldForm(directory);
  return undefined;
}

/** In words. */
export const bothDamaged = (path: string): string => `both slots of ${path} are damaged`;

/** To somebody who may not look into it, a directory seems to be empty. */
function checkReadable(directory: string): void {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT')
      throw new StateError('NODE_STATE_INVALID', `it cannot be read: ${message}`, 'Run it as root');
  }
}

function damaged(path: string): StateError {
  const hint =
    'The kernel was not touched and keeps its rules. `sluiced run`, `boot` and `apply` go on from what the kernel holds, where the store has it; else restore the file from a backup';
  return new StateError('NODE_STATE_INVALID', bothDamaged(path), hint);
}

function oldForm(directory: string): StateError {
  const hint =
    'Run `sluiced cleanup` of the release that wrote it, or move the directory away if none of its rules are in the kernel';
  return new StateError('NODE_STATE_INVALID', `${directory}/state.json is of an older sluiced`, hint);
}

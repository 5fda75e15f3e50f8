import { existsSync } from 'node:fs';
import { StateError } from '../store/state-error.ts';
import { type NodeRecord, readRecord } from './record.ts';
import { readSlots } from './slots.ts';

/**
 * The newest record, for commands that only look; undefined before the first.
 * @throws StateError when it cannot be read
 */
export function peek(directory: string): NodeRecord | undefined {
  const path = `${directory}/journal`;
  const read = readSlots(path);
  if (read.kind === 'record') return readRecord(read.text, path);
  if (read.kind === 'damaged') throw damaged(path);
  if (existsSync(`${directory}/state.json`)) throw oldForm(directory);
  return undefined;
}

function damaged(path: string): StateError {
  const hint =
    'The kernel was not touched and keeps its rules. Restore the file from a backup, or move the directory away and take the rules over by hand';
  return new StateError('NODE_STATE_INVALID', `both slots of ${path} are damaged`, hint);
}

function oldForm(directory: string): StateError {
  const hint =
    'Run `sluiced cleanup` of the release that wrote it, or move the directory away if none of its rules are in the kernel';
  return new StateError('NODE_STATE_INVALID', `${directory}/state.json is of an older sluiced`, hint);
}

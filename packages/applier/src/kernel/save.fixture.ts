import type { FamilyProgram } from '@sluice/netfilter';
import type { ObservedFamily } from '../ports/node-state.ts';
import { SaveReader } from './save.ts';

/** Reads a whole text with a `SaveReader`. */
export function readSave(text: string, known?: FamilyProgram): ObservedFamily {
  const reader = new SaveReader(known);
  reader.take(text);
  return reader.done();
}

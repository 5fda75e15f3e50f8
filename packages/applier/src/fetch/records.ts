import { renameSync, writeFileSync } from 'node:fs';
import * as v from 'valibot';
import { readTrusted } from '../inbox/descend.ts';
import type { Trust } from '../inbox/trust.ts';
import { fetchLimits } from './limits.ts';

/**
 * Reads a JSON file of the fetch directory. It may be written at the same time, and by a process that others took over.
 * @param trust whose file is read; left out: any
 * @returns undefined where there is none of this form
 */
export function readRecord<Schema extends v.GenericSchema>(
  path: string,
  schema: Schema,
  trust?: Trust,
): v.InferOutput<Schema> | undefined {
  try {
    const text = readTrusted(path, trust, fetchLimits.recordBytesMax, 0).toString('utf8');
    const parsed = v.safeParse(schema, JSON.parse(text));
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}

/** Replaces a JSON file: readers see the old one or the new one. After a power cut there may be none. @throws the error of the file system */
export function writeRecord(path: string, record: object): void {
  writeFileSync(`${path}.tmp`, `${JSON.stringify(record)}\n`, { mode: 0o644 });
  renameSync(`${path}.tmp`, path);
}

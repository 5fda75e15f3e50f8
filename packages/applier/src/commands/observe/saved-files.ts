import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { connectionsFileName, observationLimits, proxyVersionFileName, savedFileNames } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { CommandError } from '../../command-error.ts';
import { messageOf } from '../../message.ts';

const names: ReadonlySet<string> = new Set([
  ...Object.values(savedFileNames).flat(),
  proxyVersionFileName,
  connectionsFileName,
]);

/**
 * Reads the files of a directory that have a documented name, also compressed ones, `iptables-save.txt.gz`; others are ignored. Of a file
 * and its compressed form the file counts.
 * @param bytesMax of a file, as it was before it was compressed
 * @returns their texts, by name without `.gz`
 * @throws CommandError
 */
export function readSavedFiles(
  directory: string,
  bytesMax: number = observationLimits.fileBytesMax,
): ReadonlyMap<string, string> {
  const found = reading(directory, () => readdirSync(directory));
  const files = new Map<string, string>();
  // A file comes before its compressed form.
  for (const name of found.toSorted()) {
    const plain = name.replace(/\.gz$/, '');
    const path = join(directory, name);
    if (!names.has(plain) || files.has(plain) || !reading(path, () => statSync(path).isFile())) continue;
    files.set(
      plain,
      reading(path, () => decoded(bytesOf(path, bytesMax))),
    );
  }
  if (files.size === 0) throw new CommandError([unreadable(directory, 'it has no saved output of a tool')]);
  return files;
}

function bytesOf(path: string, bytesMax: number): Buffer {
  if (statSync(path).size > bytesMax) throw new Error(`it is larger than ${bytesMax} bytes`);
  const bytes = readFileSync(path);
  return path.endsWith('.gz') ? gunzipSync(bytes, { maxOutputLength: bytesMax }) : bytes;
}

/** UTF-8, or what a redirection of PowerShell writes. */
const decoded = (bytes: Buffer): string =>
  bytes[0] === 0xff && bytes[1] === 0xfe ? bytes.subarray(2).toString('utf16le') : bytes.toString('utf8');

function reading<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CommandError([unreadable(path, messageOf(error))]);
  }
}

const unreadable = (path: string, why: string): Problem => ({
  code: 'INPUT_UNREADABLE',
  level: 'error',
  message: `Cannot read ${path}: ${why}`,
  hint: 'Save `iptables-save` as iptables-save.txt, `ip6tables-save` as ip6tables-save.txt, `nft list ruleset` as nft.txt; the page of the bundle format names all files',
});

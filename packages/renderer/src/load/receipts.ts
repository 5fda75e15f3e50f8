import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readReceiptName, receiptLimits, releaseLimits } from '@sluice/bundle';
import { readRegular } from '@sluice/transport/files/regular.ts';

/** The path of one receipt, from its file name. */
export interface ReceiptPath {
  readonly path: string;
  readonly node: string;
  readonly number: number;
}

/** Why a folder of receipts cannot be read, with a hint. */
interface BeyondLimits {
  readonly why: string;
  readonly hint: string;
}

/** Limits of a folder of receipts, which comes from an untrusted transport. */
const folderLimits = { depthMax: 4, entriesMax: 1_000_000 } as const;

/** The maximum number of receipts read per node, newest first. An attacker with more bad ones only silences the node. */
export const triesMax = 4;

/**
 * Finds receipts below a folder by their names, without opening them. Ignores links, other files and hidden folders, such as `.git` of a
 * clone.
 * @param most how many of each node to keep
 * @returns node → its newest receipts, the newest first; or which limit the folder exceeds
 */
export function findReceipts(
  dir: string,
  most: number = triesMax,
): ReadonlyMap<string, readonly ReceiptPath[]> | BeyondLimits {
  const found = new Map<string, ReceiptPath[]>();
  let entries = 0;
  const keep = (one: ReceiptPath): void => {
    const newest = found.get(one.node) ?? [];
    if (newest.length === 0) found.set(one.node, newest);
    newest.push(one);
    newest.sort((a, b) => b.number - a.number);
    newest.length = Math.min(newest.length, most);
  };
  const walk = (folder: string, depth: number): BeyondLimits | undefined => {
    if (depth > folderLimits.depthMax) return tooDeep(folder);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (++entries > folderLimits.entriesMax) return tooMany;
      const path = join(folder, entry.name);
      const beyond = entry.isDirectory() && !entry.name.startsWith('.') ? walk(path, depth + 1) : undefined;
      if (beyond !== undefined) return beyond;
      const name = entry.isFile() ? readReceiptName(entry.name) : undefined;
      if (name) keep({ path, ...name });
    }
    return undefined;
  };
  return walk(dir, 0) ?? found;
}

function tooDeep(folder: string): BeyondLimits {
  return {
    why: `${folder} is nested deeper than ${folderLimits.depthMax} levels`,
    hint: 'Pass the folder of the receipts, or move other files out of it',
  };
}

const tooMany: BeyondLimits = {
  why: `it contains more than ${folderLimits.entriesMax} files`,
  hint: 'Remove old receipts: only the newest one of a node counts',
};

/** The texts of a receipt and its signature; undefined for a missing, irregular or oversized file. */
export function readReceiptTexts({ path }: ReceiptPath): {
  readonly text: string | undefined;
  readonly signature: string | undefined;
} {
  return {
    text: readSmall(path, receiptLimits.bytesMax),
    signature: readSmall(`${path}.sig`, releaseLimits.signatureBytesMax),
  };
}

/** An unreadable file counts as missing. */
function readSmall(path: string, bytesMax: number): string | undefined {
  try {
    const bytes = readRegular(path, bytesMax);
    return typeof bytes === 'object' ? bytes.toString('latin1') : undefined;
  } catch {
    return undefined;
  }
}

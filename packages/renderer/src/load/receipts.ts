import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readReceiptName, receiptLimits, releaseLimits } from '@sluice/bundle';
import { readRegular } from './regular.ts';

/** The files of one receipt, unread. */
export interface ReceiptPath {
  readonly path: string;
  readonly node: string;
  readonly number: number;
}

/** In words. */
export interface BeyondLimits {
  readonly why: string;
  readonly hint: string;
}

/** What a folder of receipts may be: it was carried by strangers. */
const folderLimits = { depthMax: 4, entriesMax: 1_000_000 } as const;

/** So many of the newest files of a node are looked at: who puts more bad ones there makes the node silent, which opens nothing. */
const triesMax = 4;

/**
 * Finds receipts below a folder by their names; nothing is opened. Links are not followed, other files are passed over, and so are
 * folders whose names begin with a dot, such as `.git` of a clone.
 * @returns node → the newest few of its receipts, the newest first; or why the folder is beyond the limits, and what to do
 */
export function findReceipts(dir: string): ReadonlyMap<string, readonly ReceiptPath[]> | BeyondLimits {
  const found = new Map<string, ReceiptPath[]>();
  let entries = 0;
  const keep = (one: ReceiptPath): void => {
    const newest = found.get(one.node) ?? [];
    if (newest.length === 0) found.set(one.node, newest);
    newest.push(one);
    newest.sort((a, b) => b.number - a.number);
    newest.length = Math.min(newest.length, triesMax);
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
    why: `${folder} is nested more than ${folderLimits.depthMax} deep`,
    hint: 'Name the folder that the receipts lie in, or move away what is no receipt',
  };
}

const tooMany: BeyondLimits = {
  why: `it has more than ${folderLimits.entriesMax} files`,
  hint: 'Remove what is old: only the newest receipt of a node counts',
};

/** The texts of a receipt and its signature; undefined for one that is not there or is no regular file of usual size. */
export function readReceiptTexts({ path }: ReceiptPath): {
  readonly text: string | undefined;
  readonly signature: string | undefined;
} {
  return {
    text: readSmall(path, receiptLimits.bytesMax),
    signature: readSmall(`${path}.sig`, releaseLimits.signatureBytesMax),
  };
}

/** What cannot be read is no evidence. */
function readSmall(path: string, bytesMax: number): string | undefined {
  try {
    const bytes = readRegular(path, bytesMax);
    return typeof bytes === 'object' ? bytes.toString('latin1') : undefined;
  } catch {
    return undefined;
  }
}

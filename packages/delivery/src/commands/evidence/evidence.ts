import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Problem } from '@sluice/netfilter';
import { readReceipt, type Receipt, receiptNamespace, readSigners, releaseLimits, type Signer } from '@sluice/bundle';
import type { Evidence } from '../../fleet/fleet.ts';
import { findReceipts, readReceiptTexts, type ReceiptPath } from '@sluice/renderer/load/receipts.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { sshKeygen, whoSigned } from './ssh-keygen.ts';

interface GatheredReceipts {
  /** Of every node in `allowed_receipts`. */
  readonly evidence: ReadonlyMap<string, Evidence>;
  /** Nodes with receipts that are not in `allowed_receipts`. */
  readonly foreignNodes: readonly string[];
}

/**
 * Reads the receipts of a folder and verifies their signatures.
 * @throws Stopped when the folder or `allowed_receipts` cannot be used
 */
export function gatherEvidence(dir: string, allowedReceipts: string): GatheredReceipts {
  const keys = keysOfNodes(dir, allowedReceipts);
  const found = receiptPaths(dir);
  return {
    evidence: new Map([...keys].map(([node, own]) => [node, evidenceOf(dir, found.get(node) ?? [], own)])),
    foreignNodes: [...found.keys()].filter((node) => !keys.has(node)),
  };
}

/** The most receipts that are verified for the history of a node. */
const historyMax = 500;

/**
 * The receipts of one node with valid signatures, the newest first, back to the first that is not newer than a time.
 * @param at `2026-12-01T12:00:00Z`
 * @throws Stopped when the folder or `allowed_receipts` cannot be used, or has no key of the node
 */
export function receiptsSince(dir: string, allowedReceipts: string, node: string, at: string): readonly Receipt[] {
  const keys = keysOfNodes(dir, allowedReceipts).get(node);
  if (keys === undefined)
    throw new Stopped(
      unusable(
        dir,
        `${allowedReceipts} has no key of ${node}`,
        'Add the key of the node, as `sluiced keygen` prints it',
      ),
    );
  const found: Receipt[] = [];
  for (const path of receiptPaths(dir, historyMax).get(node) ?? []) {
    const receipt = believe(path, keys);
    if (typeof receipt === 'string') continue;
    found.push(receipt);
    if (receipt.at <= at) break;
  }
  return found;
}

function keysOfNodes(dir: string, allowedReceipts: string): ReadonlyMap<string, readonly Signer[]> {
  if (!existsSync(sshKeygen))
    throw new Stopped(unusable(dir, `${sshKeygen} is not installed`, 'Install the OpenSSH client'));
  const signers = readSigners(
    allowedReceipts,
    reading(allowedReceipts, () => readFileSync(allowedReceipts, 'latin1')),
    releaseLimits.receiptSignersBytesMax,
  );
  if ('problems' in signers) throw new Stopped(signers.problems[0] as Problem);
  return Map.groupBy(signers, ({ principal }) => principal);
}

function receiptPaths(dir: string, most?: number): ReadonlyMap<string, readonly ReceiptPath[]> {
  const found = reading(dir, () => findReceipts(dir, most));
  if ('why' in found) throw new Stopped(unusable(dir, found.why, found.hint));
  return found;
}

function evidenceOf(dir: string, paths: readonly ReceiptPath[], keys: readonly Signer[]): Evidence {
  const passedOver: string[] = [];
  for (const path of paths) {
    const receipt = believe(path, keys);
    if (typeof receipt !== 'string') return { receipt, file: relative(dir, path.path), passedOver };
    passedOver.push(`number ${path.number}: ${receipt}`);
  }
  return { receipt: undefined, file: undefined, passedOver };
}

/** Returns the receipt, or the reason to ignore it. The signature is verified before the text is parsed. */
function believe(path: ReceiptPath, keys: readonly Signer[]): ReturnType<typeof readReceipt> {
  const { text, signature } = readReceiptTexts(path);
  if (text === undefined) return 'the file cannot be read';
  if (signature === undefined) return 'its signature is missing';
  const signed = whoSigned(text, new Map([['its signature', signature]]), keys, receiptNamespace);
  if (signed.principals.length === 0) return 'its signature is not from a key of this node';
  const receipt = readReceipt(text);
  if (typeof receipt === 'string') return receipt;
  return receipt.node === path.node && receipt.number === path.number
    ? receipt
    : 'its node or number does not match its file name';
}

function unusable(dir: string, why: string, hint: string): Problem {
  return { code: 'RECEIPT_INVALID', level: 'error', message: `Cannot use the receipts in ${dir}: ${why}`, hint };
}

import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Problem } from '@sluice/netfilter';
import { readReceipt, type Receipt, receiptNamespace, readSigners, releaseLimits, type Signer } from '@sluice/bundle';
import type { Evidence } from '../../fleet/fleet.ts';
import { findReceipts, readReceiptTexts } from '@sluice/renderer/load/receipts.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { progress } from '@sluice/renderer/commands/output/progress.ts';
import { fetchReceipts, type FoundReceipt, type ReceiptInput, unusable } from './found.ts';
import { sshKeygen, whoSigned } from './ssh-keygen.ts';

interface GatheredReceipts {
  /** Of every node in `allowed_receipts`. */
  readonly evidence: ReadonlyMap<string, Evidence>;
  /** Nodes with receipts that are not in `allowed_receipts`. */
  readonly foreignNodes: readonly string[];
}

/**
 * Reads receipts and verifies their signatures.
 * @param nodes to ask a store for; default: those of `allowed_receipts`
 * @throws Stopped when the receipts or `allowed_receipts` cannot be used
 */
export async function gatherEvidence(
  input: ReceiptInput,
  allowedReceipts: string,
  nodes?: readonly string[],
): Promise<GatheredReceipts> {
  const name = 'dir' in input ? input.dir : input.from;
  const keys = keysOfNodes(name, allowedReceipts);
  progress(`checking the receipts in ${name}`);
  if ('dir' in input) {
    const found = receiptsIn(input.dir);
    const evidence = new Map([...keys].map(([node, own]) => [node, evidenceOf(found.get(node) ?? [], own)]));
    return { evidence, foreignNodes: [...found.keys()].filter((node) => !keys.has(node)) };
  }
  const asked = [...keys].filter(([node]) => nodes === undefined || nodes.includes(node));
  const found = await fetchReceipts(
    input,
    asked.map(([node]) => node),
  );
  const evidence = asked.map(([node, own]) => {
    const receipts = found.get(node) ?? [];
    return [
      node,
      typeof receipts === 'string' ? { ...silent, passedOver: [receipts] } : evidenceOf(receipts, own),
    ] as const;
  });
  return { evidence: new Map(evidence), foreignNodes: [] };
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
  for (const one of receiptsIn(dir, historyMax).get(node) ?? []) {
    const receipt = believe(one, keys);
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

/** Receipts in a folder; a file is opened when it is verified. */
function receiptsIn(dir: string, most?: number): ReadonlyMap<string, readonly FoundReceipt[]> {
  const found = reading(dir, () => findReceipts(dir, most));
  if ('why' in found) throw new Stopped(unusable(dir, found.why, found.hint));
  const receipts = [...found].map(
    ([node, paths]) =>
      [
        node,
        paths.map((one) => ({ ...one, file: relative(dir, one.path), texts: () => readReceiptTexts(one) })),
      ] as const,
  );
  return new Map(receipts);
}

const silent: Evidence = { receipt: undefined, file: undefined, passedOver: [] };

function evidenceOf(found: readonly FoundReceipt[], keys: readonly Signer[]): Evidence {
  const passedOver: string[] = [];
  for (const one of found) {
    const receipt = believe(one, keys);
    if (typeof receipt !== 'string') return { receipt, file: one.file, passedOver };
    passedOver.push(`number ${one.number}: ${receipt}`);
  }
  return { ...silent, passedOver };
}

/** Returns the receipt, or the reason to ignore it. The signature is verified before the text is parsed. */
function believe(found: FoundReceipt, keys: readonly Signer[]): ReturnType<typeof readReceipt> {
  const { text, signature } = found.texts();
  if (text === undefined) return 'the file cannot be read';
  if (signature === undefined) return 'its signature is missing';
  const signed = whoSigned(text, new Map([['its signature', signature]]), keys, receiptNamespace);
  if (signed.principals.length === 0) return 'its signature is not from a key of this node';
  const receipt = readReceipt(text);
  if (typeof receipt === 'string') return receipt;
  return receipt.node === found.node && receipt.number === found.number
    ? receipt
    : 'its node or number does not match its file name';
}

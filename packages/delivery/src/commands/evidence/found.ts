import type { Problem } from '@sluice/netfilter';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { triesMax } from '@sluice/renderer/load/receipts.ts';
import { archivePath, type CarriedReceipt, unpackReceipts } from '@sluice/transport/receipts/archive.ts';
import { openReceipts } from '@sluice/transport/receipts/open.ts';
import { readReceiptSpec } from '@sluice/transport/receipts/spec.ts';
import { atRegistry } from '../failure/at-registry.ts';

/** A store of archives, one for each node. */
interface StoreInput {
  /** As `--from` names it. */
  readonly from: string;
  readonly plainHttp?: boolean;
}

/** Where a command reads receipts from: a folder of receipts, as nodes write them, or a store. */
export type ReceiptInput = { readonly dir: string } | StoreInput;

/** The input that options name; undefined: none. */
export function receiptInput(
  dir: string | undefined,
  { from, plainHttp = false }: Partial<StoreInput>,
): ReceiptInput | undefined {
  if (from !== undefined) return { from, plainHttp };
  return dir === undefined ? undefined : { dir };
}

/** A receipt by its name; nothing of it is verified. */
export interface FoundReceipt extends Pick<CarriedReceipt, 'number'> {
  readonly node: string;
  /** Relative to the folder of receipts; undefined in an archive. */
  readonly file: string | undefined;
  /** Undefined: missing, irregular or oversized. */
  texts(): { readonly text: string | undefined; readonly signature: string | undefined };
}

/**
 * Reads the newest receipts of nodes from a store, without listing it.
 * @returns node → its receipts, the newest first; or in words why its archive is not used. A node without an archive is left out
 * @throws Stopped when the store cannot be reached or refuses access
 */
export async function fetchReceipts(
  { from, plainHttp = false }: StoreInput,
  nodes: readonly string[],
): Promise<ReadonlyMap<string, readonly FoundReceipt[] | string>> {
  const spec = readReceiptSpec(from);
  if (typeof spec === 'string') throw new Stopped(unusable(from, spec, specHint));
  const access = { http: { plainHttp }, env: process.env, git: 'user' } as const;
  const archives = await atRegistry(() => openReceipts(spec, access).read(nodes));
  const found = [...archives].map(([node, archive]) => {
    const receipts = typeof archive === 'string' ? archive : unpackReceipts(archivePath(node), node, archive);
    return [node, typeof receipts === 'string' ? receipts : receipts.slice(0, triesMax).map(foundOf(node))] as const;
  });
  return new Map(found);
}

const foundOf =
  (node: string) =>
  (receipt: CarriedReceipt): FoundReceipt => ({ node, number: receipt.number, file: undefined, texts: () => receipt });

const specHint = 'Write oci://REGISTRY/REPOSITORY, https://…, git+https://…, git+ssh://… or the path of a directory';

export function unusable(name: string, why: string, hint: string): Problem {
  return { code: 'RECEIPT_INVALID', level: 'error', message: `Cannot use the receipts in ${name}: ${why}`, hint };
}

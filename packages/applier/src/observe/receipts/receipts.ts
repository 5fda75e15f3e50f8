import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { printReceipt, readReceiptName, type Receipt, receiptFile } from '@sluice/bundle';
import * as v from 'valibot';
import { descend } from '../../inbox/descend.ts';
import { InboxError, trustOf } from '../../inbox/trust.ts';
import type { Run } from '../../kernel/command.ts';
import { readIfThere, replaceFile, writing } from '../../state/files.ts';
import { StateError } from '../../state/state-error.ts';
import type { ReceiptContent } from './account.ts';
import { hasKey, keyFile, signReceipt } from './key.ts';
import { StateFile } from '../../state/state-file.ts';

/** The node's config for receipts. */
interface ReceiptRules {
  readonly node: string;
  /** The state directory, with the key and the number of the last receipt. */
  readonly state: string;
  /** Where receipts are written, to be collected. */
  readonly directory: string;
  /** How many of the newest are kept. */
  readonly keep: number;
}

const reportedSchema = v.strictObject({
  /** Whether the last receipt was a refusal. */
  refused: v.boolean(),
  /** The release that was last reported to be in the kernel, and its generation. */
  isIn: v.optional(
    v.strictObject({
      release: v.strictObject({ cluster: v.string(), serial: v.number(), digest: v.string(), version: v.string() }),
      generation: v.number(),
    }),
  ),
  /** Whether the release was reported otherwise since, such as refused: endpoint updates do not cancel that. */
  isOvertaken: v.optional(v.boolean()),
  /** What it said of a drain. */
  draining: v.optional(v.picklist(['operator', 'shutdown'])),
});
/** What receipts have reported about the node's release, kept for the next process. */
export type ReportedRelease = v.InferOutput<typeof reportedSchema>;

const lastSchema = v.strictObject({
  schema: v.literal(1),
  number: v.number(),
  content: v.string(),
  told: v.optional(reportedSchema),
});

/**
 * Writes the receipts of this node: packages/bundle/README.md, "Receipts". Without a key it writes nothing, because an unsigned receipt is
 * no evidence.
 */
export class Receipts {
  readonly #rules: ReceiptRules;
  readonly #run: Run;
  readonly #nowMs: () => number;

  /** @param nowMs the time of day */
  constructor(rules: ReceiptRules, run: Run, nowMs: () => number) {
    this.#rules = rules;
    this.#run = run;
    this.#nowMs = nowMs;
  }

  /**
   * Writes a receipt, unless the last one has the same content.
   * @param kept stays with it, for the next process
   * @returns its file, or undefined when there was nothing to write
   * @throws StateError when the key cannot be used, or the disk takes no write
   */
  async write(content: ReceiptContent, kept?: ReportedRelease): Promise<string | undefined> {
    const { state, directory, keep } = this.#rules;
    if (!hasKey(state)) return undefined;
    const last = this.#last();
    // Signed by another key, the same content is new evidence.
    const same = JSON.stringify([content, this.#key]);
    if (last?.content === same) return undefined;
    const receipt: Receipt = { ...content, number: this.#nextNumber(last?.number ?? 0), at: this.#at() };
    const text = printReceipt(receipt);
    const signature = await signReceipt(state, text, this.#run);
    const file = join(directory, receiptFile(receipt));
    openDirectory(directory);
    // The number first: two receipts never share one. The signature before its receipt: an existing receipt is complete.
    this.#remember(receipt.number, last?.content ?? '', last?.told);
    for (const [path, body] of [
      [`${file}.sig`, signature],
      [file, text],
    ] as const) {
      replaceFile(path, body);
      // Readable by all users: receipts may be collected by any of them, and contain nothing secret.
      writing(path, () => chmodSync(path, 0o644));
    }
    this.#remember(receipt.number, same, kept);
    writing(directory, () => this.#prune(keep));
    return file;
  }

  get #key(): string | undefined {
    return readIfThere(`${keyFile(this.#rules.state)}.pub`);
  }

  /** Whether the last receipt was signed by a key that was replaced since: it is no longer trusted. */
  get isOfOtherKey(): boolean {
    const content = this.#last()?.content ?? '';
    try {
      return content !== '' && !content.endsWith(`,${JSON.stringify(this.#key ?? null)}]`);
    } catch {
      return false; // a key that cannot be read signs nothing either
    }
  }

  /** What was kept with the last receipt. */
  get kept(): ReportedRelease | undefined {
    return this.#last()?.told;
  }

  /** From the clock, so that a node that lost its state continues with higher numbers; always above the last one. */
  #nextNumber(last: number): number {
    return Math.max(last + 1, Math.floor(this.#nowMs() / 1000), 1);
  }

  #at(): string {
    return `${new Date(this.#nowMs()).toISOString().slice(0, 19)}Z`;
  }

  get #path(): string {
    return join(this.#rules.state, 'receipt.json');
  }

  /** A damaged record counts as none: the clock keeps numbers growing. Read each time: commands write receipts, too. */
  #last(): v.InferOutput<typeof lastSchema> | undefined {
    return new StateFile(this.#path, lastSchema).read();
  }

  #remember(number: number, content: string, told: ReportedRelease | undefined): void {
    replaceFile(this.#path, `${JSON.stringify({ schema: 1, number, content, told })}\n`);
  }

  #prune(keep: number): void {
    const { directory, node } = this.#rules;
    const own = readdirSync(directory)
      .map((name) => ({ name, of: readReceiptName(name) }))
      .filter(({ of }) => of?.node === node)
      .toSorted((a, b) => compareText(b.name, a.name));
    for (const { name } of own.slice(keep)) {
      rmSync(join(directory, name), { force: true });
      rmSync(join(directory, `${name}.sig`), { force: true });
    }
  }
}

/** Creates the directory, and refuses one where other users could redirect our writes. */
function openDirectory(directory: string): void {
  writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o755 }));
  try {
    descend(directory, trustOf(undefined))[Symbol.dispose]();
  } catch (error) {
    if (!(error instanceof InboxError)) throw error;
    throw new StateError('NODE_STATE_INVALID', `cannot write receipts to ${directory}: ${error.message}`, error.hint);
  }
}

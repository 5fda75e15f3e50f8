import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { compareText, printReceipt, readReceiptName, type Receipt, receiptFile } from '@sluice/bundle';
import * as v from 'valibot';
import { descend } from '../inbox/descend.ts';
import { InboxError, trustOf } from '../inbox/trust.ts';
import type { Run } from '../kernel/run.ts';
import { readIfThere, writeDurably, writing } from '../store/files.ts';
import { StateError } from '../store/state-error.ts';
import type { ReceiptContent } from './account.ts';
import { hasKey, keyFile, signReceipt } from './key.ts';

/** What the node's config says about receipts. */
export interface ReceiptRules {
  readonly node: string;
  /** The state directory: the key and the number of the last receipt are there. */
  readonly state: string;
  /** Where receipts are put, for whoever carries them away. */
  readonly directory: string;
  /** So many of the newest stay. */
  readonly keep: number;
}

const toldSchema = v.strictObject({
  /** Whether the last word was that something was refused. */
  refused: v.boolean(),
  /** The release that was told last to be in the kernel, and as which generation. */
  isIn: v.optional(
    v.strictObject({
      release: v.strictObject({ cluster: v.string(), serial: v.number(), digest: v.string(), version: v.string() }),
      generation: v.number(),
    }),
  ),
  /** Whether anything else was told of a release since, such as that it was refused: endpoints that go in do not cover that. */
  isOvertaken: v.optional(v.boolean()),
});
/** What was said of the node's release, for whoever goes on after this process. */
export type Told = v.InferOutput<typeof toldSchema>;

const lastSchema = v.strictObject({
  schema: v.literal(1),
  number: v.number(),
  content: v.string(),
  told: v.optional(toldSchema),
});

/**
 * Writes what this node says of itself: packages/bundle/README.md, "Receipts". Without a key nothing is written, because what is not
 * signed is no evidence.
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
   * Writes a receipt, unless the last one says the same.
   * @param told is kept with it
   * @returns its file, or undefined when there was nothing to write
   * @throws StateError when the key, the disk or the directory does not do
   */
  async write(content: ReceiptContent, told?: Told): Promise<string | undefined> {
    const { state, directory, keep } = this.#rules;
    if (!hasKey(state)) return undefined;
    const last = this.#last();
    // Under another key the same words are new evidence.
    const same = JSON.stringify([content, this.#key]);
    if (last?.content === same) return undefined;
    const receipt: Receipt = { ...content, number: this.#nextNumber(last?.number ?? 0), at: this.#at() };
    const text = printReceipt(receipt);
    const signature = await signReceipt(state, text, this.#run);
    const file = join(directory, receiptFile(receipt));
    openDirectory(directory);
    // The number first: two receipts never share one. The signature before its receipt: one that is there is complete.
    this.#remember(receipt.number, last?.content ?? '', last?.told);
    for (const [path, body] of [
      [`${file}.sig`, signature],
      [file, text],
    ] as const) {
      writeDurably(path, body);
      // Whoever carries receipts need not be root; they hold nothing that others may not read.
      writing(path, () => chmodSync(path, 0o644));
    }
    this.#remember(receipt.number, same, told);
    writing(directory, () => this.#prune(keep));
    return file;
  }

  get #key(): string | undefined {
    return readIfThere(`${keyFile(this.#rules.state)}.pub`);
  }

  /** Whether the last receipt was signed by another key than the one that is there: nobody believes it any more. */
  get isOfOtherKey(): boolean {
    const content = this.#last()?.content ?? '';
    try {
      return content !== '' && !content.endsWith(`,${JSON.stringify(this.#key ?? null)}]`);
    } catch {
      return false; // a key that cannot be read signs nothing either
    }
  }

  /** What was kept with the last receipt. */
  get told(): Told | undefined {
    return this.#last()?.told;
  }

  /** By the clock, so that a node which lost its state goes on above what it said before; and always above the last one. */
  #nextNumber(last: number): number {
    return Math.max(last + 1, Math.floor(this.#nowMs() / 1000), 1);
  }

  #at(): string {
    return `${new Date(this.#nowMs()).toISOString().slice(0, 19)}Z`;
  }

  get #path(): string {
    return join(this.#rules.state, 'receipt.json');
  }

  /** A record that is damaged counts as none: the clock keeps numbers growing. */
  #last(): v.InferOutput<typeof lastSchema> | undefined {
    try {
      const text = readIfThere(this.#path);
      return text === undefined ? undefined : v.parse(lastSchema, JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  #remember(number: number, content: string, told: Told | undefined): void {
    writeDurably(this.#path, `${JSON.stringify({ schema: 1, number, content, told })}\n`);
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

/** Makes the directory, and refuses one where others could lead our writes elsewhere. */
function openDirectory(directory: string): void {
  writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o755 }));
  try {
    descend(directory, trustOf(undefined)).close();
  } catch (error) {
    if (!(error instanceof InboxError)) throw error;
    throw new StateError(
      'NODE_STATE_INVALID',
      `receipts cannot be put into ${directory}: ${error.message}`,
      error.hint,
    );
  }
}

import { nftTableName } from '@sluice/netfilter';
import type { NftProtection } from '../../ports/nftables/ports.ts';
import { limits } from '../../limits.ts';
import type { Command, OnExit, Run, ToolResult } from '../command.ts';
import { type HelperOptions, NftHelper } from './nft-helper.ts';
import { type NftWriter, OneShotWriter } from './nft-writer.ts';

/** The parts of a process that starts tools. */
interface NftOwnerOptions extends HelperOptions {
  readonly run: Run;
  /** As `runChildren` takes them: called before each transaction of the helper. */
  readonly started: (pid: number, command: Pick<Command, 'file' | 'changesTables'>) => OnExit | undefined;
}

const flags = 'flags owner,persist;';

/** Taken where nft (1.1.0) and Linux (6.9) know both flags; with `--check` nothing of it stays. */
const checkText = `table inet sluice-check {\n  ${flags}\n}\n`;
/** Taken by no nft: one that is broken, and takes this, answers nothing. */
const refusedText = checkText.replace(flags, 'flags none;');

/** Changes nothing, and fails where there is no such table. No health check has port 0. */
const isThereText = `add element ${nftTableName} health4 { 0 }
delete element ${nftTableName} health4 { 0 }
`;

/** Owns the table, or fails; alone, the first line would make an empty table. */
const ownText = `add table ${nftTableName} { ${flags} }\n${isThereText}`;

/** The whole table at once, or its end. */
const wholeTable = new RegExp(`^(?:delete )?table ${nftTableName}\\b`, 'm');

const withFlags = (text: string): string =>
  text.replace(new RegExp(`^table ${nftTableName} \\{\\n`, 'm'), (head) => `${head}  ${flags}\n`);

/**
 * Protects the table of mode nftables: a helper process owns it, and the kernel refuses every change by another process; `flush ruleset`
 * skips it. When the helper ends the table stays (`persist`), and the next helper owns it.
 *
 * A whole table is loaded by a process of its own, which ends: the memory that this takes, 150 MB at 10,000 Services, would stay with a
 * helper. For the few milliseconds until the helper owns it again other programs can change it.
 *
 * Where nft or the kernel do not know the flags, or the table was made without them, the helper takes changes all the same, in a tenth of
 * the time of a new process, and the table is open. `owner` without `persist` is never used: the table would end with its owner.
 */
export class NftOwner implements NftWriter {
  readonly #parts: NftOwnerOptions;
  readonly #oneShot: OneShotWriter;
  /** Undefined: not yet asked. */
  #isPossible: boolean | undefined;
  /** Takes the changes; it owns the table where that is possible. */
  #helper: NftHelper | undefined;
  #protection: NftProtection = { kind: 'open', why: 'the table is not owned yet' };
  /** Whether nothing changes about that before a whole table is loaded. */
  #isSettled = false;
  #startedMs = 0;
  #failures = 0;
  #again: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Transactions, one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: NftOwnerOptions) {
    this.#parts = parts;
    this.#oneShot = new OneShotWriter(parts.nft, parts.run);
  }

  get protection(): NftProtection {
    return this.#protection;
  }

  write(text: string): Promise<ToolResult> {
    return this.#inTurn(() => (wholeTable.test(text) ? this.#replace(text) : this.#change(text)));
  }

  /** Owns the table of the node, if it has one, and keeps owning it. May be called often. */
  own(): Promise<void> {
    const waits = this.#helper !== undefined || this.#isSettled || this.#again !== undefined;
    return waits ? Promise.resolve() : this.#inTurn(() => this.#own());
  }

  /** Ends the helper. The table stays. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#again);
    void this.#release();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #change(text: string): Promise<ToolResult> {
    const helper = this.#helper?.runs === true ? this.#helper : undefined;
    if (!helper) return this.#oneShot.write(text);
    const result = await this.#ask(helper, text);
    if (helper.memoryBytes > limits.nftHelperBytesMax) {
      await this.#release();
      await this.#own();
    }
    return result;
  }

  async #replace(text: string): Promise<ToolResult> {
    const wasOwned = this.#helper !== undefined;
    await this.#release();
    const result = await this.#oneShot.write((await this.#knowsFlags()) === true ? withFlags(text) : text);
    // It may be the flags that are refused: nft was replaced by another version, or answered wrongly.
    if (result.exitCode !== 0) this.#isPossible = undefined;
    this.#isSettled = false;
    if (wasOwned || result.exitCode === 0) await this.#own();
    return result;
  }

  async #own(): Promise<void> {
    if (this.#isClosed || this.#helper?.runs === true) return;
    const knows = await this.#knowsFlags();
    if (knows === undefined)
      return this.#stayOpen({ why: 'nft does not tell whether it can be owned', isLasting: false });
    // `close` ends a helper that is there: one that is being started is ended here, or it would keep this process alive.
    if (this.#isClosed) return;
    const helper: NftHelper = new NftHelper(this.#parts, () => this.#lost(helper));
    const { exitCode, why } = await this.#ask(helper, knows ? ownText : isThereText);
    const lack = exitCode !== 0 ? lackOf(why) : knows ? undefined : withoutFlags;
    if (!this.#isClosed && helper.runs && (lack === undefined || lack.isTableThere)) {
      this.#helper = helper;
      this.#startedMs = performance.now();
      this.#protection = lack ? { kind: 'open', why: lack.why } : { kind: 'owned' };
      return;
    }
    await helper.end();
    this.#stayOpen(lack ?? { why: 'the process that owned the table ended', isLasting: false });
  }

  #stayOpen({ why, isLasting }: OwnLack): void {
    this.#protection = { kind: 'open', why };
    if (isLasting) this.#isSettled = true;
    else this.#ownLater();
  }

  /** Ends the helper by intention. */
  async #release(): Promise<void> {
    const helper = this.#helper;
    this.#helper = undefined;
    await helper?.end();
  }

  #lost(helper: NftHelper): void {
    if (this.#helper !== helper) return;
    this.#helper = undefined;
    if (this.#protection.kind === 'owned')
      this.#protection = { kind: 'open', why: 'the process that owned the table ended' };
    if (performance.now() - this.#startedMs > limits.nftOwnAgainMsMax) this.#failures = 0;
    this.#ownLater();
  }

  #ownLater(): void {
    if (this.#isClosed) return;
    const delayMs = Math.min(limits.nftOwnAgainMs * 2 ** this.#failures, limits.nftOwnAgainMsMax);
    this.#failures += 1;
    clearTimeout(this.#again);
    this.#again = setTimeout(() => {
      this.#again = undefined;
      void this.own();
    }, delayMs);
  }

  async #ask(helper: NftHelper, text: string): Promise<ToolResult> {
    const { nft, started } = this.#parts;
    const ended = helper.pid === undefined ? undefined : started(helper.pid, { file: nft, changesTables: true });
    const answer = await helper.write(text);
    const exitCode = answer.kind === 'taken' ? 0 : answer.kind === 'refused' ? 1 : undefined;
    ended?.(exitCode);
    const stderr = answer.kind === 'refused' ? answer.stderr : '';
    const why = answer.kind === 'taken' ? '' : answer.kind === 'refused' ? firstLines(stderr) : answer.why;
    return { exitCode, stdout: '', stderr, why, ...('fault' in answer ? { lost: answer.fault } : {}) };
  }

  /** @returns as `knowsOwnership` */
  async #knowsFlags(): Promise<boolean | undefined> {
    this.#isPossible ??= await knowsOwnership(this.#parts.nft, this.#parts.run);
    return this.#isPossible;
  }
}

/**
 * Whether nft and the kernel know the flags.
 * @param nft the path of the tool
 * @returns undefined if the tool crashed, took too long, or takes everything
 */
export async function knowsOwnership(nft: string, run: Run): Promise<boolean | undefined> {
  const takes = async (input: string): Promise<boolean | undefined> => {
    const { exitCode } = await run({ file: nft, args: ['--check', '-f', '-'], input });
    return exitCode === undefined ? undefined : exitCode === 0;
  };
  return (await takes(refusedText)) === false ? takes(checkText) : undefined;
}

const firstLines = (text: string): string => text.trim().split('\n').slice(0, 3).join('; ');

/** Why the table is not owned. */
interface OwnLack {
  readonly why: string;
  /** Whether only a load of the whole table changes that. */
  readonly isLasting: boolean;
  /** Whether the table can be changed all the same. */
  readonly isTableThere?: true;
}

const withoutFlags: OwnLack = {
  why: 'nft 1.1.0 and Linux 6.9 or newer are needed',
  isLasting: true,
  isTableThere: true,
};

/** @param why an error of `ownText` */
function lackOf(why: string): OwnLack {
  if (why.includes('Operation not supported'))
    return {
      why: 'the table was made without it; the next boot makes one with it',
      isLasting: true,
      isTableThere: true,
    };
  if (why.includes('No such file or directory')) return { why: 'there is no table', isLasting: true };
  const isOwned = why.includes('Operation not permitted');
  return { why: isOwned ? 'another process owns the table' : why, isLasting: false };
}

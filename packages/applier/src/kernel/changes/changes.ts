import { createHash, hash } from 'node:crypto';
import { compareText } from '@sluice/netfilter';
import { limits, paces, pauseAfter } from '../../limits.ts';
import type { Run } from '../command.ts';
import { LinuxNft } from '../nft/nft-linux.ts';
import { processorMs } from '../processor-time.ts';
import { findTool, type Tools } from '../tools.ts';
import type { ChangeCount } from './change-count.ts';
import type { ChangeWatch, ForeignChange } from './foreign-change.ts';
import { judgeHearing } from './hearing.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';

/** What tells of changes, the best first. */
interface ChangeSources {
  readonly monitor: Pick<NftMonitor, 'state' | 'reports' | 'hasEverReported' | 'returnMs' | 'restart' | 'close'>;
  readonly count: Pick<ChangeCount, 'read'>;
  readonly poll: ChangeWatch;
  readonly monotonicMs: () => number;
}

/**
 * Changes that a monitor reports by itself, and each second the proof that it hears: the count of changes stands, or the monitor reported
 * something and has read everything. One that does not hear is replaced, and the tables are compared. Until the next one runs, the count
 * alone says whether there is anything to compare; where nothing is counted, polls do.
 */
export class HeardChanges implements ChangeWatch {
  readonly #parts: ChangeSources;
  /** The count, and the number of reports, when every change was known. */
  #count: string | undefined;
  #reports = 0;
  /** The number of reports at the last look. */
  #lastReports = 0;
  #lateSinceMs: number | undefined;
  /** Sluice itself changed something since the last look, which the count does not tell apart. */
  #hasWritten = false;
  #dueMs: number;

  constructor(parts: ChangeSources) {
    this.#parts = parts;
    this.#dueMs = parts.monotonicMs() + limits.hearPauseMs;
    // Changes count from now on.
    void parts.count.read().then((count) => {
      this.#count ??= count;
    });
  }

  get dueMs(): number {
    return this.#dueMs;
  }

  async look(): Promise<ForeignChange | 'unchanged' | 'unknown'> {
    const { monitor, count: counter, monotonicMs } = this.#parts;
    const count = await counter.read();
    const nowMs = monotonicMs();
    const hasReported = monitor.reports !== this.#reports;
    // A report is a sign of life.
    if (monitor.reports !== this.#lastReports) this.#lateSinceMs = nowMs;
    this.#lateSinceMs ??= nowMs;
    this.#lastReports = monitor.reports;
    const isNew = count === undefined || this.#count === undefined;
    const moved = isNew ? undefined : count !== this.#count;
    const { state, hasEverReported } = monitor;
    const lateMs = nowMs - this.#lateSinceMs;
    const hearing = judgeHearing({ monitor: state, moved, hasReported, hasEverReported, lateMs });
    this.#dueMs = nowMs + (hearing === 'late' ? limits.hearAgainMs : limits.hearPauseMs);
    if (hearing === 'late') return 'unknown';
    if (hearing === 'unknown') return this.#poll(count);
    if (hearing === 'deaf') monitor.restart();
    const hasWritten = this.#hasWritten;
    this.#count = count;
    this.#reports = monitor.reports;
    this.#lateSinceMs = undefined;
    this.#hasWritten = false;
    if (hearing === 'complete' || moved === false) return 'unchanged';
    return { by: undefined, what: [], ...(hasWritten ? { isDoubt: true } : {}) };
  }

  async #poll(count: string | undefined): Promise<ForeignChange | 'unchanged' | 'unknown'> {
    const { monitor, poll, monotonicMs } = this.#parts;
    const began = this.#count === undefined && count !== undefined;
    this.#count = count;
    // What happened before the count began is not known.
    if (began) return { by: undefined, what: [], isDoubt: true };
    const dueMs = Math.max(poll.dueMs, monitor.returnMs);
    if (monotonicMs() < dueMs) return 'unknown';
    return poll.look();
  }

  forget(): void {
    this.#hasWritten = true;
    this.#parts.poll.forget();
  }

  close(): void {
    this.#parts.monitor.close();
  }
}

/**
 * Polls the tables every few seconds and only sees whether they differ from the last time, not who changed what. Cheaper than a comparison
 * with the desired rules, but still a walk over all rules, so the pause grows with the processor time of a poll. The first poll asks for a
 * comparison, too: only content from before a comparison without findings is known to be right.
 */
export class SavePoll implements ChangeWatch {
  readonly #saves: readonly string[];
  readonly #run: Run;
  readonly #monotonicMs: () => number;
  readonly #processorMs: () => number;
  readonly #more: () => Promise<string | undefined>;
  #digest: string | undefined;
  dueMs: number;

  /**
   * @param saves the save tools of all families
   * @param usedMs the processor time of this process and its children
   * @param more a digest of what no save tool prints; undefined: it cannot be read
   */
  constructor(
    saves: readonly string[],
    run: Run,
    monotonicMs: () => number,
    usedMs: () => number = processorMs,
    more: () => Promise<string | undefined> = async () => '',
  ) {
    this.#more = more;
    this.#processorMs = usedMs;
    this.#saves = saves;
    this.#run = run;
    this.#monotonicMs = monotonicMs;
    this.dueMs = monotonicMs() + paces.poll.leastMs;
  }

  forget(): void {
    this.#digest = undefined;
  }

  close(): void {
    // Nothing is open between two polls.
  }

  async look(): Promise<ForeignChange | 'unchanged'> {
    const usedMs = this.#processorMs();
    const digest = await this.#read();
    const before = this.#digest;
    this.#digest = digest;
    this.dueMs = this.#monotonicMs() + pauseAfter(this.#processorMs() - usedMs, paces.poll);
    if (before === digest && digest !== undefined) return 'unchanged';
    const isDoubt = before === undefined && digest !== undefined;
    return { by: undefined, what: [], ...(isDoubt ? { isDoubt } : {}) };
  }

  /** undefined: a tool failed, and the comparison reports why. */
  async #read(): Promise<string | undefined> {
    const digest = new SaveDigest();
    for (const file of this.#saves) {
      const { exitCode } = await this.#run({ file, args: [], onOutput: (part) => digest.take(part) });
      if (exitCode !== 0) return undefined;
    }
    const more = await this.#more();
    return more === undefined ? undefined : digest.end() + more;
  }
}

/** The digest of the output of save tools, computed as it comes: all rules of a node as one text would be 50 MB. */
class SaveDigest {
  readonly #hash = createHash('sha256');
  #rest = '';

  take(part: string): void {
    const text = this.#rest + part;
    const end = text.lastIndexOf('\n') + 1;
    this.#hash.update(withoutCounters(text.slice(0, end)));
    this.#rest = text.slice(end);
  }

  end(): string {
    return this.#hash.update(this.#rest).digest('hex');
  }
}

/** Dates in comments and the counters of built-in chains change constantly. */
const withoutCounters = (lines: string): string => lines.replaceAll(/^#.*\n/gm, '').replaceAll(/ \[\d+:\d+\]$/gm, '');

/**
 * Watches events of nf_tables, where `xtables-monitor` runs; otherwise, and in the legacy store, polls every few seconds.
 * @param count undefined: `xtables-monitor` is not installed
 * @param onChange called for events; it must not take long
 * @param isNft whether the node runs mode nftables now
 */
export function watchChanges(
  tools: Tools,
  run: Run,
  own: OwnProcesses,
  count: ChangeCount | undefined,
  monotonicMs: () => number,
  onChange: (change: ForeignChange) => void,
  isNft: () => boolean = () => false,
): ChangeWatch {
  const saves = Object.values(tools.families).map(({ save }) => save);
  const poll = new SavePoll(saves, run, monotonicMs, undefined, () =>
    isNft() ? tableDigest(run) : Promise.resolve(''),
  );
  const [program, stdbuf, setpriv] = [findTool('xtables-monitor'), findTool('stdbuf'), findTool('setpriv')];
  const lacks = program === undefined || stdbuf === undefined || setpriv === undefined || count === undefined;
  if (tools.backend !== 'nft' || lacks) return poll;
  const monitor = new NftMonitor({ monitor: program, stdbuf, setpriv }, own, onChange, isNft, monotonicMs);
  return new HeardChanges({ monitor, count, poll, monotonicMs });
}

/** The digest of the table of mode nftables, without what packets fill. @returns undefined if it cannot be read */
async function tableDigest(run: Run): Promise<string | undefined> {
  const nft = findTool('nft');
  if (nft === undefined) return undefined;
  try {
    const observed = await new LinuxNft(nft, run).observe();
    const sets = [...(observed?.elements ?? [])].map(([name, held]) => [name, [...held].toSorted(byKey)] as const);
    return hash('sha256', JSON.stringify([sets, [...(observed?.chains ?? [])], [...(observed?.parts ?? [])]]), 'hex');
  } catch {
    return undefined;
  }
}

const byKey = ([a]: readonly [string, string], [b]: readonly [string, string]): number => compareText(a, b);

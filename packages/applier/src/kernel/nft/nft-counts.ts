import { countsEndpoints } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import {
  type CountedElement,
  countedMaps,
  deletedCounts,
  DeletedCounts,
  type EndpointCount,
  readCounts,
} from '../../ports/nftables/counts.ts';
import type { Run, ToolResult } from '../command.ts';
import { WorkCost } from '../processor-time.ts';

/** What work may use of a processor. */
interface AllowanceSize {
  /** Of the time that goes by: 0.002 is 0.2 %. */
  readonly share: number;
  /** So much at once, after a while without work. */
  readonly burstMs: number;
}

/**
 * Processor time for work that may be left out. It grows with time and shrinks with use; work that costs more than is left is done, and then
 * none for as long as that takes to grow back, so that expensive work is done now and then, and cheap work each time.
 */
export class Allowance {
  readonly #size: AllowanceSize;
  readonly #monotonicMs: () => number;
  #leftMs: number;
  #atMs: number;

  constructor(size: AllowanceSize, monotonicMs: () => number) {
    this.#size = size;
    this.#monotonicMs = monotonicMs;
    this.#leftMs = size.burstMs;
    this.#atMs = monotonicMs();
  }

  /** Does the work if any time is left for it; the work counts its cost. @returns undefined: it was left out */
  async spend<T>(work: (cost: WorkCost) => Promise<T>): Promise<T | undefined> {
    const { share, burstMs } = this.#size;
    const nowMs = this.#monotonicMs();
    this.#leftMs = Math.min(burstMs, this.#leftMs + (nowMs - this.#atMs) * share);
    this.#atMs = nowMs;
    if (this.#leftMs <= 0) return undefined;
    const cost = new WorkCost();
    try {
      return await work(cost);
    } finally {
      this.#leftMs -= cost.usedMs;
    }
  }
}

/**
 * Counts of endpoints by the elements of a table with `endpointCounters`, from the start of this process. Elements count as long as they
 * live, so their counts are read before a transaction deletes them, as long as that stays cheap: it lists whole maps, as `nft get element`
 * does, too, with nft 1.0.6 and 1.1.3. Whether a table has the option is known where this process has loaded
 * it, and else asked once; without the option nothing else is read.
 */
export class NftCounts {
  readonly #nft: string;
  readonly #run: Run;
  readonly #deleted = new DeletedCounts();
  readonly #forDeletions: Allowance;
  /** Undefined: not yet asked. */
  #isCounting: boolean | undefined;
  /** How many transactions deleted counts. */
  #deletions = 0;

  /** @param nft the path of the tool @param forDeletions processor time for readings before transactions */
  constructor(nft: string, run: Run, forDeletions = new Allowance(limits.deletionReads, () => performance.now())) {
    this.#nft = nft;
    this.#run = run;
    this.#forDeletions = forDeletions;
  }

  /**
   * Carries out a transaction, and keeps the counts of elements that it deletes. Where many changes would make that expensive they are lost:
   * what the elements counted since the last reading is missing then.
   */
  async around(text: string, write: () => Promise<ToolResult>): Promise<ToolResult> {
    const deletes = deletedCounts(text);
    const loads = /^table inet sluice \{$/m.test(text);
    const isWhole = loads || deletes === 'all';
    if (!isWhole && deletes.size === 0) return write();
    const going = (await this.#counts())
      ? await this.#forDeletions.spend((cost) => this.#readAll(deletes, cost))
      : undefined;
    this.#deletions += 1;
    const result = await write();
    if (result.exitCode === 0) {
      this.#deleted.add(going ?? []);
      if (isWhole) this.#isCounting = loads ? countsEndpoints(text) : undefined;
    }
    this.#deletions += 1;
    return result;
  }

  /**
   * Reads all counters.
   * @param cost what that takes is added to it
   * @returns undefined if the table has none, or if a change went on meanwhile: the next read is as good
   */
  async read(cost: WorkCost): Promise<readonly EndpointCount[] | undefined> {
    if (!(await this.#counts(cost))) return undefined;
    const before = this.#deletions;
    const present = await this.#readAll('all', cost);
    if (before !== this.#deletions || before % 2 !== 0) return undefined;
    return cost.own(() => this.#deleted.with(present));
  }

  async #counts(cost = new WorkCost()): Promise<boolean> {
    if (this.#isCounting === undefined) {
      // Each counted map has the statement. nft 1.0.6 reads the elements that `-t` leaves out, too: 1 s for the largest map at 10,000 Services.
      const { exitCode, stdout } = await this.#list(cost, 'sctp6', '-t');
      this.#isCounting = exitCode === 0 && /^\s*counter$/m.test(stdout);
    }
    return this.#isCounting;
  }

  async #readAll(
    wanted: ReadonlyMap<string, ReadonlySet<string>> | 'all',
    cost = new WorkCost(),
  ): Promise<readonly CountedElement[]> {
    const found: CountedElement[] = [];
    for (const map of countedMaps.keys()) {
      const keys = wanted === 'all' ? undefined : wanted.get(map);
      if (wanted !== 'all' && !keys) continue;
      const { stdout } = await this.#list(cost, map);
      cost.own(() => {
        for (const one of readCounts(map, stdout)) if (!keys || keys.has(one.key)) found.push(one);
      });
    }
    return found;
  }

  #list(cost: WorkCost, map: string, ...options: readonly string[]): Promise<ToolResult> {
    return cost.of(this.#run)({
      file: this.#nft,
      args: ['-n', ...options, 'list', 'map', 'inet', 'sluice', map],
      outputBytesMax: limits.countsListBytesMax,
    });
  }
}

import { readFileSync } from 'node:fs';
import { type Family, familySuffix } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { AffinityFill } from '../../ports/nftables/affinity.ts';
import { familyNames } from '../../ports/node-state.ts';
import type { Run } from '../command.ts';

/** The tools that count clients. */
interface CountTools {
  readonly nft: string;
  /** Bounds the memory of a listing; without it clients are counted only where nft and the kernel tell their number. */
  readonly prlimit: string | undefined;
  readonly run: Run;
  /** Ends the count: it may take minutes. */
  readonly signal?: AbortSignal;
}

/**
 * Counts the clients of session affinity that the kernel remembers. nft 1.1.4 and Linux 6.16 tell the number; older ones list each client,
 * which takes 1.7 kB of nft's memory: the listing is bounded, and one that reaches its bound has more clients than fit in it.
 * @returns what could be counted: no map, no tool and a tool that fails leave a family out
 */
export async function affinityFills(tools: CountTools): Promise<readonly AffinityFill[]> {
  const found: AffinityFill[] = [];
  for (const family of familyNames) {
    const fill = await fillOf(tools, family);
    if (fill) found.push(fill);
  }
  return found;
}

async function fillOf({ nft, prlimit, run, signal }: CountTools, family: Family): Promise<AffinityFill | undefined> {
  const map = `aff${familySuffix[family]}`;
  const list = ['list', 'map', 'inet', 'sluice', map];
  const { exitCode, stdout } = await run({ file: nft, args: ['-n', '-t', ...list] });
  const size = Number(/^\s*size (\d+)/m.exec(stdout)?.[1]);
  if (exitCode !== 0 || !(size > 0)) return undefined;
  const printed = /^\s*size \d+\s*# count (\d+)/m.exec(stdout)?.[1];
  if (printed !== undefined) return { family, clients: Number(printed), size };
  if (prlimit === undefined) return undefined;
  const bytes = Math.min(limits.affinityListBytesMax, Math.floor(availableBytes() / 2));
  const counter = new ClientCounter();
  const ran = await run({
    file: prlimit,
    args: [`--as=${bytes}`, nft, '-n', ...list],
    onOutput: (part) => counter.take(part),
    timeoutMs: limits.affinityCountTimeoutMs,
    signal,
  });
  if (ran.exitCode === 0) return { family, clients: counter.clients, size };
  if (!outOfMemory.test(ran.stderr)) return undefined;
  return { family, clients: Math.floor(bytes / limits.affinityClientBytes), size, isAtLeast: true };
}

/** The errors of nft and of its libraries. */
const outOfMemory = /Memory allocation failure|Cannot allocate memory/;

/** Counts clients in a listing as it comes: each has the time that is left to it. */
export class ClientCounter {
  #rest = '';
  clients = 0;

  take(part: string): void {
    const text = this.#rest + part;
    let at = text.indexOf(mark);
    let end = 0;
    for (; at >= 0; at = text.indexOf(mark, end)) {
      this.clients += 1;
      end = at + mark.length;
    }
    this.#rest = text.slice(Math.max(end, text.length - mark.length + 1));
  }
}

const mark = ' expires ';

/** Memory that the machine can give without swapping. */
function availableBytes(): number {
  try {
    return 1024 * Number(/^MemAvailable: +(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

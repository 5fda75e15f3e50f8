import type { Run } from './run.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';
import { SavePoll } from './save-poll.ts';
import { findTool, type Tools } from './tools.ts';

/** Something that somebody else did to the tables. */
export interface Change {
  /** Who, where the kernel says so: `iptables-nft (process 4711)`. */
  readonly by: string | undefined;
  /** A few of the things that were changed, in the words of `nft monitor`. */
  readonly what: readonly string[];
}

/** Notices that the tables change, or at least that they have changed. */
export interface ChangeWatch {
  /** When `look` is to be called next, by the clock that was given; Infinity where events tell. */
  readonly dueMs: number;
  /** Says whether the tables are other than at the last look, or there was none. */
  look(): Promise<Change | undefined>;
  /** What was seen before does not count: Sluice has changed something itself. */
  forget(): void;
  close(): void;
}

/**
 * Events of nf_tables, where `nft monitor` runs; otherwise, and in the legacy store, a look every few seconds.
 * @param onChange called for events; it must not take long
 */
export function watchChanges(
  tools: Tools,
  run: Run,
  own: OwnProcesses,
  monotonicMs: () => number,
  onChange: (change: Change) => void,
): ChangeWatch {
  const saves = Object.values(tools.families).map(({ save }) => save);
  const poll = new SavePoll(saves, run, monotonicMs);
  const nft = tools.backend === 'nft' ? findTool('nft') : undefined;
  const [setpriv, prlimit] = [findTool('setpriv'), findTool('prlimit')];
  if (nft === undefined || setpriv === undefined || prlimit === undefined) return poll;
  const monitor = new NftMonitor({ nft, setpriv, prlimit }, own, onChange);
  return {
    get dueMs() {
      return monitor.listens ? Infinity : poll.dueMs;
    },
    look: () => poll.look(),
    forget: () => poll.forget(),
    close: () => monitor.close(),
  };
}

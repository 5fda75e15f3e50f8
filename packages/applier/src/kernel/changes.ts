import type { Run } from './run.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';
import { SavePoll } from './save-poll.ts';
import { findTool, type Tools } from './tools.ts';

/** Something that somebody else did to the tables. */
export interface Change {
  /** Who, where the kernel says so: `iptables-nft (process 4711)`. */
  readonly by: string | undefined;
  /** A few of the things that were changed in our chains and jumps, each as the command that does it; empty: none is known. */
  readonly what: readonly string[];
  /** Nobody was seen to change anything; it is only unknown what happened for a while. */
  readonly isDoubt?: true;
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
 * Events of nf_tables, where `xtables-monitor` runs; otherwise, and in the legacy store, a look every few seconds.
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
  const [program, stdbuf, setpriv] = [findTool('xtables-monitor'), findTool('stdbuf'), findTool('setpriv')];
  if (tools.backend !== 'nft' || program === undefined || stdbuf === undefined || setpriv === undefined) return poll;
  const monitor = new NftMonitor({ monitor: program, stdbuf, setpriv }, own, onChange);
  return {
    get dueMs() {
      return monitor.listens ? Infinity : poll.dueMs;
    },
    look: () => poll.look(),
    forget: () => poll.forget(),
    close: () => monitor.close(),
  };
}

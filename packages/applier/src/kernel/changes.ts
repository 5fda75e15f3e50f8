import type { Run } from './run.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';
import { SavePoll } from './save-poll.ts';
import { findTool, type Tools } from './tools.ts';

/** A change of the tables by another program. */
export interface ForeignChange {
  /** The program, where the kernel tells: `iptables-nft (process 4711)`. */
  readonly by: string | undefined;
  /** Some of the changes in our chains and jumps, each as the command that makes it; empty: none is known. */
  readonly what: readonly string[];
  /** No change was seen; only it is not known what happened for a while. */
  readonly isDoubt?: true;
}

/** Detects changes of the tables. */
export interface ChangeWatch {
  /** When `look` is to be called next, by the given clock; Infinity where events report changes. */
  readonly dueMs: number;
  /** @returns a change since the last look; also when there was none */
  look(): Promise<ForeignChange | undefined>;
  /** Sluice itself has changed the tables: earlier looks do not count. */
  forget(): void;
  close(): void;
}

/**
 * Watches events of nf_tables, where `xtables-monitor` runs; otherwise, and in the legacy store, polls every few seconds.
 * @param onChange called for events; it must not take long
 */
export function watchChanges(
  tools: Tools,
  run: Run,
  own: OwnProcesses,
  monotonicMs: () => number,
  onChange: (change: ForeignChange) => void,
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

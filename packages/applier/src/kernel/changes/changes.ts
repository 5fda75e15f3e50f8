import type { ForeignChange, ChangeWatch } from './foreign-change.ts';
import type { Run } from '../command.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';
import { SavePoll } from './save-poll.ts';
import { findTool, type Tools } from '../tools.ts';

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

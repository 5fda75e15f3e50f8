import { hash } from 'node:crypto';
import { compareText } from '@sluice/netfilter';
import { LinuxNft } from '../nft/nft-linux.ts';
import type { ChangeCount } from './change-count.ts';
import type { ForeignChange, ChangeWatch } from './foreign-change.ts';
import type { Run } from '../command.ts';
import { HeardChanges } from './heard-changes.ts';
import { NftMonitor } from './nft-monitor.ts';
import type { OwnProcesses } from './own-processes.ts';
import { SavePoll } from './save-poll.ts';
import { findTool, type Tools } from '../tools.ts';

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

import { setTimeout as sleep } from 'node:timers/promises';
import type { BundleFiles } from '@sluice/bundle';
import { plural, type Problem } from '@sluice/netfilter';
import { CommandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import { runChildren } from '../../kernel/run.ts';
import { detectTools, otherBackend, storeOf, useOf } from '../../kernel/tools.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { findings } from '../../preflight/preflight.ts';
import { pinnedStore } from '../../state/peek.ts';
import { type Arrival, Inbox } from '../../inbox/inbox.ts';
import { gateOf, wavesOf } from '../session/gate.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * The bundle that the node is to run, with its seal.
 * @param remember whether its release is accepted: only under the lock of the state directory
 * @param waitMs how long a writer, such as `sluice watch`, may take to complete what it has begun
 * @throws CommandError also where the wave of this node is not open: that orders the moves of a fleet
 */
export async function bundleFor(
  config: SluicedConfig,
  remember: boolean,
  waitMs: number = limits.writerAtWorkMs,
): Promise<Extract<Arrival, { kind: 'bundle' }>['tree']> {
  const gates = [gateOf(config, () => remember), wavesOf(config, () => remember)] as const;
  const inbox = new Inbox(config.bundle, Date.now, undefined, ...gates);
  let arrival = await inbox.look();
  for (const endMs = performance.now() + waitMs; isIncomplete(arrival) && performance.now() < endMs; ) {
    await sleep(limits.eventSettleMs);
    arrival = await inbox.look();
  }
  if (arrival.kind === 'bundle') {
    if (arrival.waits) throw new CommandError([{ ...arrival.waits.problem, level: 'error' }], exitCodes.refused);
    return arrival.tree;
  }
  const missing: Problem = {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot read ${config.bundle}: no such file or directory`,
    hint: 'Pass the path of a bundle directory',
  };
  throw new CommandError(arrival.kind === 'refused' ? arrival.problems : [missing], exitCodes.refused);
}

const isIncomplete = (arrival: Arrival): boolean =>
  arrival.kind === 'refused' && arrival.problems.every(({ code }) => code === 'BUNDLE_INCOMPLETE');

/**
 * Checks everything that a move needs, and changes nothing. That a kube-proxy runs, and that its rules stand, is what a move begins with.
 * @throws CommandError
 */
export async function mustBeReady(config: SluicedConfig, files: BundleFiles, terminal: Terminal): Promise<void> {
  const bad = (await findings(config, files, [])).filter(({ level, what }) => level === 'bad' && !isOfKubeProxy(what));
  if (bad.length > 0) {
    for (const { what, todo } of bad) terminal.err(`${what}: ${todo}\n`);
    throw new CommandError([notReady(bad.length)], exitCodes.refused);
  }
  const elsewhere = await otherStore(config);
  if (elsewhere) throw new CommandError([elsewhere], exitCodes.refused);
}

const isOfKubeProxy = (what: string): boolean => /^(?:kube-proxy|chains of another owner)\b/.test(what);

/**
 * The rules of kube-proxy must be in the store that Sluice writes to: in mode iptables, of two stores the kernel asks the one that was loaded
 * last; and what is in the other store could not be removed.
 */
async function otherStore(config: SluicedConfig): Promise<Problem | undefined> {
  const run = runChildren();
  const { backend } = await detectTools(storeOf(config.backend, pinnedStore(config.state)), run);
  const other = otherBackend(backend);
  if (!(await useOf(other, run)).hasKubeProxy) return undefined;
  return {
    code: 'NODE_CANNOT_ADOPT',
    level: 'error',
    message: `Cannot put the bundle in front of this kube-proxy: its rules are in the ${other} store, and Sluice's would be in ${backend}`,
    hint: `Set \`backend: ${other}\` in sluiced.yaml; after the move, \`sluiced backend ${backend}\` moves the rules`,
  };
}

const notReady = (count: number): Problem => ({
  code: 'NODE_CANNOT_ADOPT',
  level: 'error',
  message: `Cannot move this node from kube-proxy: ${plural(count, 'check')} of \`sluiced preflight\` failed`,
  hint: 'Nothing was touched. Do what they say, then run the same command again',
});

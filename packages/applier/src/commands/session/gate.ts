import type { SluicedConfig } from '../../config.ts';
import { CommandError, commandError } from '../../command-error.ts';
import { LiveInbox } from '../../daemon/live-inbox.ts';
import { type Arrival, Inbox } from '../../inbox/inbox.ts';
import { ReleaseGate } from '../../inbox/release-gate.ts';
import { trustOf } from '../../inbox/trust.ts';
import { WaveGate } from '../../inbox/wave-gate.ts';
import { runChildren } from '../../kernel/run.ts';
import { liveLimits } from '../../limits.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { NodeSession } from './session.ts';

/**
 * The release gate of the config.
 * @param remember false for a dry run, and before the lock is taken
 * @returns undefined where signatures are not required
 */
export function makeReleaseGate(config: SluicedConfig, remember: () => boolean): ReleaseGate | undefined {
  const { policy, allowedSigners, threshold, floor } = config.signatures;
  if (policy === 'none') return undefined;
  const { node, cluster, state } = config;
  return new ReleaseGate(
    { node, cluster, state, allowedSigners, threshold, floor },
    // The owner of bundles must not choose their signers.
    { run: runChildren(), nowMs: Date.now, trust: trustOf(undefined), remember },
  );
}

/** The gate that waits for this node's wave. @param remember as for `makeReleaseGate` */
export function makeWaveGate({ node, state, signatures }: SluicedConfig, remember: () => boolean): WaveGate {
  const { policy, allowedSigners } = signatures;
  return new WaveGate(
    { node, state, allowedSigners: policy === 'required' ? allowedSigners : undefined },
    { run: runChildren(), trust: trustOf(undefined), remember },
  );
}

/**
 * Reads the bundle as the daemon does, without accepting it.
 * @param vouched an operator named the directory: its write permissions are not checked
 */
export function lookAt(config: SluicedConfig, vouched: boolean): Promise<Arrival> {
  const trust = vouched ? undefined : trustOf(config.bundleOwner, config.source?.directory);
  return new Inbox(
    config.bundle,
    Date.now,
    trust,
    makeReleaseGate(config, () => false),
  ).look();
}

/**
 * The bundle of a directory, if this node may apply it now.
 * @param noBundle the exit code where the directory has none; a refusal by the node has its own
 * @throws CommandError also where the wave of the node is not open
 */
export function mustBeBundle(
  arrival: Arrival,
  directory: string,
  noBundle: number,
  ignoresWaves = false,
): Extract<Arrival, { kind: 'bundle' }> {
  const hint = 'Pass the path of a bundle directory';
  if (arrival.kind === 'absent')
    throw commandError('INPUT_UNREADABLE', `Cannot read ${directory}: no such file or directory`, hint, noBundle);
  if (arrival.kind === 'refused') {
    const isVerdict = arrival.problems.some(({ code }) => /^(RELEASE|SIGNERS|NODE)_|^BUNDLE_UNTRUSTED$/.test(code));
    throw new CommandError(arrival.problems, isVerdict ? exitCodes.refused : noBundle);
  }
  if (arrival.waits && !ignoresWaves)
    throw new CommandError([{ ...arrival.waits.problem, level: 'error' }], exitCodes.refused);
  return arrival;
}

/** The directory of live endpoints; undefined: the config has none. */
export const liveInboxOf = ({ endpoints: { live } }: SluicedConfig): Inbox | undefined =>
  live && new Inbox(live.directory, Date.now, { ...trustOf(live.owner), subject: 'the directory of endpoints.live' });

/**
 * Releases with live endpoints, where the config has a directory for them: a release alone may have none.
 * @param monotonicMs of a process that looks again; left out: it looks once, and the writer of live endpoints is not waited for
 */
export function withLive(
  released: Inbox,
  config: SluicedConfig,
  { reconciler, journal }: Pick<NodeSession, 'reconciler' | 'journal'>,
  monotonicMs?: () => number,
): Inbox | LiveInbox {
  const live = liveInboxOf(config);
  if (!live) return released;
  return new LiveInbox({
    released,
    live,
    endpointsOf: (release) => reconciler.withLive(release),
    hasRules: () => (journal.active?.number ?? 0) > 0,
    ...(monotonicMs ? { monotonicMs, waitMs: liveLimits.waitMs } : { monotonicMs: () => 0, waitMs: 0 }),
  });
}

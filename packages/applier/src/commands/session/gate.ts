import type { SluicedConfig } from '../../config.ts';
import { type Arrival, Inbox } from '../../inbox/inbox.ts';
import { ReleaseGate } from '../../inbox/release-gate.ts';
import { trustOf } from '../../inbox/trust.ts';
import { WaveGate } from '../../inbox/wave-gate.ts';
import { runChildren } from '../../kernel/run.ts';

/**
 * The release gate of the config.
 * @param remember false for a dry run, and before the lock is taken
 * @returns undefined where signatures are not required
 */
export function gateOf(config: SluicedConfig, remember: () => boolean): ReleaseGate | undefined {
  const { policy, allowedSigners, threshold, floor } = config.signatures;
  if (policy === 'none') return undefined;
  const { node, cluster, state } = config;
  return new ReleaseGate(
    { node, cluster, state, allowedSigners, threshold, floor },
    // The owner of bundles must not choose their signers.
    { run: runChildren(), nowMs: Date.now, trust: trustOf(undefined), remember },
  );
}

/** The gate that waits for this node's wave. @param remember as for `gateOf` */
export function wavesOf({ node, state, signatures }: SluicedConfig, remember: () => boolean): WaveGate {
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
    gateOf(config, () => false),
  ).look();
}

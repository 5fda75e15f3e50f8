import type { Config } from '../config.ts';
import { ReleaseGate } from '../inbox/release-gate.ts';
import { trustOf } from '../inbox/trust.ts';
import { WaveGate } from '../inbox/wave-gate.ts';
import { runChildren } from '../kernel/run.ts';

/**
 * The gate that the config asks for.
 * @param remember false for what may change nothing, such as a dry run, and for who has not taken the lock
 * @returns undefined where the config says that signatures are not required
 */
export function gateOf(config: Config, remember: () => boolean): ReleaseGate | undefined {
  const { policy, allowedSigners, threshold, floor } = config.signatures;
  if (policy === 'none') return undefined;
  const { node, cluster, state } = config;
  return new ReleaseGate(
    { node, cluster, state, allowedSigners, threshold, floor },
    // The user who may own bundles may not say who signs them.
    { run: runChildren(), nowMs: Date.now, trust: trustOf(undefined), remember },
  );
}

/** Says whether the wave of this node is open. @param remember as for `gateOf` */
export function wavesOf({ node, state, signatures }: Config, remember: () => boolean): WaveGate {
  const { policy, allowedSigners } = signatures;
  return new WaveGate(
    { node, state, allowedSigners: policy === 'required' ? allowedSigners : undefined },
    { run: runChildren(), trust: trustOf(undefined), remember },
  );
}

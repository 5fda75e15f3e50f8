import type { Config } from '../config.ts';
import { ReleaseGate } from '../inbox/release-gate.ts';
import { trustOf } from '../inbox/trust.ts';
import { runChildren } from '../kernel/run.ts';

/**
 * The gate that the config asks for.
 * @param remember false for what may change nothing, such as a dry run
 * @returns undefined where the config says that signatures are not required
 */
export function gateOf(config: Config, remember: boolean): ReleaseGate | undefined {
  const { policy, allowedSigners, threshold, floor } = config.signatures;
  if (policy === 'none') return undefined;
  const { node, cluster, state } = config;
  return new ReleaseGate(
    { node, cluster, state, allowedSigners, threshold, floor },
    // The user who may own bundles may not say who signs them.
    { run: runChildren(), nowMs: Date.now, trust: trustOf(undefined), remember },
  );
}

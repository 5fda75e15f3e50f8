import type { SluicedConfig } from '../../config.ts';
import { trustOf } from '../../inbox/trust.ts';
import type { Run } from '../../kernel/command.ts';
import { otherBackend, type RuleStore, readStoreUse } from '../../kernel/tools.ts';
import { certificateGate } from '../../move/parity/gate.ts';
import { bootId } from '../../move/parity/read-file.ts';
import { type Observation, observedDigest } from '@sluice/bundle';
import type { ParityGate } from '../../ports/parity.ts';
import { readObservation } from '../../diagnose/examine/observation.ts';
import { readMachine } from '../../kernel/facts.ts';
import { procTunables } from '../../kernel/sysctl.ts';

/** The gate that requires the certificate of the config; undefined where it requires none. @param backend the rule store in use */
export function makeCertificateGate(config: SluicedConfig, run: Run, backend: RuleStore): ParityGate | undefined {
  if (!config.requireParity) return undefined;
  const { node, state, parityCertificate: certificate, signatures } = config;
  return certificateGate(
    { node, certificate, allowedSigners: signatures.allowedSigners },
    {
      run,
      state,
      // The owner of bundles must not choose who certifies them.
      trust: trustOf(undefined),
      nowMs: Date.now,
      bootId,
      servesElsewhere: async () => (await readStoreUse(otherBackend(backend), run)).hasKubeProxy,
      observe: async () => observedDigest(await observeBefore(node, true, run)),
    },
  );
}

/**
 * Observes this machine as it is before Sluice: while kube-proxy's rules stand, layout `tree` provides no chains of its names.
 * @param knowsBpf as of the kernel; the digest does not depend on it
 */
export const observeBefore = (node: string, knowsBpf: boolean, run: Run): Promise<Observation> =>
  readObservation({ node, host: { ...readMachine(procTunables), knowsBpf, providesKubeChains: false } }, run);

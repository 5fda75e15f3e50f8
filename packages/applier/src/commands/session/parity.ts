import type { SluicedConfig } from '../../config.ts';
import { trustOf } from '../../inbox/trust.ts';
import type { Run } from '../../kernel/command.ts';
import { otherBackend, type RuleStore, useOf } from '../../kernel/tools.ts';
import { CertificateGate } from '../../parity/gate.ts';
import { observeDigest } from '../../parity/observe.ts';
import { bootId } from '../../parity/read-file.ts';

/** The gate that requires the certificate of the config. @param backend the rule store in use */
export function certificateGateOf(config: SluicedConfig, run: Run, backend: RuleStore): CertificateGate {
  const { node, state, parityCertificate: certificate, signatures } = config;
  return new CertificateGate(
    { node, certificate, allowedSigners: signatures.allowedSigners },
    {
      run,
      state,
      // The owner of bundles must not choose who certifies them.
      trust: trustOf(undefined),
      nowMs: Date.now,
      bootId,
      standsElsewhere: async () => (await useOf(otherBackend(backend), run)).hasKubeProxy,
      observe: () => observeDigest(run),
    },
  );
}

// @module-tag all
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { differencesOf } from './differences.ts';
import { focus, judge, skip } from './judge.ts';
import { kubernetesVersion } from './programs.ts';
import { useRig } from './rig.ts';
import { junitOf, writeRun } from './runs.ts';
import { kubeProxySystem, sluiceSystem } from './systems.ts';

const withCluster = useRig();

/** Tests with this label are those that every distribution of Kubernetes must pass. */
const labelled = String.raw`\[Conformance\]`;
const isWhole = reaches('soak');
/** Some tests alone: `SLUICE_FOCUS='invalid conntrack state'`. */
const chosen = process.env['SLUICE_FOCUS'];

describe.each([
  sluiceSystem({ mode: 'nftables', layout: 'tree' }),
  ...(isWhole
    ? [
        kubeProxySystem('iptables'),
        kubeProxySystem('nftables'),
        sluiceSystem({ mode: 'iptables', layout: 'tree' }),
        sluiceSystem({ mode: 'iptables', layout: 'flat' }),
      ]
    : []),
])('$title', (system) => {
  test('passes the tests of Kubernetes, but for named differences', { timeout: 3_600_000 }, async () => {
    await withCluster(system, async ({ control, plane, programs }, folder) => {
      const startedMs = Date.now();
      const judgement = await judge(control, programs, plane.kubeconfig, folder, {
        focus: chosen ?? (isWhole ? focus : `${focus}.*${labelled}`),
        skip,
        processes: 8,
        timeoutMs: 3_000_000,
      });
      const { verdicts, failures } = judgement;
      process.stdout.write(`${system.title}: ${verdicts.size} tests of Kubernetes\n`);
      const junit = junitOf({ system: system.title, verdicts: Object.fromEntries(verdicts) }, failures);
      writeFileSync(join(folder, 'junit.xml'), junit);
      if (isWhole)
        writeRun(
          {
            system: system.title,
            version: system.version(),
            kubernetes: kubernetesVersion,
            tookMs: Date.now() - startedMs,
          },
          judgement,
          chosen !== undefined,
        );
      expect(Object.fromEntries(differencesOf(system, verdicts, failures))).toEqual({});
      expect(verdicts.size).toBeGreaterThan(chosen === undefined ? 20 : 0);
    });
  });
});

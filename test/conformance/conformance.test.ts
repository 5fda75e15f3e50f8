// @module-tag all
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { differencesOf } from './differences.ts';
import { focus, judge, skip } from './judge.ts';
import { kubernetesVersion } from './programs.ts';
import { installedSystem } from './operations/installed.ts';
import { signedSystem } from './operations/signed.ts';
import { useRig } from './rig.ts';
import { junitOf, type RunFacts, writeRun } from './runs.ts';
import { kubeProxySystem, sluiceSystem, type System } from './systems.ts';

const withCluster = useRig();

/** Tests with this label are those that every distribution of Kubernetes must pass. */
const labelled = String.raw`\[Conformance\]`;
const isWhole = reaches('soak');
/** Some tests alone: `SLUICE_FOCUS='invalid conntrack state'`, or those with the label: `SLUICE_FOCUS='\[Conformance\]'`. */
const asked = process.env['SLUICE_FOCUS'];
const chosen = asked === labelled ? undefined : asked;
/** Whether all with the label are chosen, and no others. */
const isByLabel = !isWhole || asked === labelled;

describe.each([
  sluiceSystem({ mode: 'nftables', layout: 'tree' }),
  ...(isWhole
    ? [
        kubeProxySystem('iptables'),
        kubeProxySystem('nftables'),
        sluiceSystem({ mode: 'iptables', layout: 'tree' }),
        sluiceSystem({ mode: 'iptables', layout: 'flat' }),
        installedSystem(),
        installedSystem('iptables'),
        signedSystem({ follows: true }),
      ]
    : []),
])('$title', (system) => {
  test('passes the tests of Kubernetes, but for named differences', {
    timeout: 3_600_000,
    retry: 0,
  }, async (context) => {
    await system.prepare?.(context);
    await withCluster(system, async ({ control, plane, programs }, folder) => {
      const startedMs = Date.now();
      const judgement = await judge(control, programs, plane.kubeconfig, folder, {
        focus: chosen ?? (isByLabel ? `${focus}.*${labelled}` : focus),
        skip,
        processes: 8,
        timeoutMs: 3_000_000,
      });
      const { verdicts, failures } = judgement;
      const tookMs = Date.now() - startedMs;
      process.stdout.write(`${system.title}: ${verdicts.size} tests of Kubernetes in ${Math.round(tookMs / 1000)} s\n`);
      const junit = junitOf({ system: system.title, verdicts: Object.fromEntries(verdicts) }, failures);
      writeFileSync(join(folder, 'junit.xml'), junit);
      if (isWhole) writeRun({ ...factsOf(system), tookMs }, judgement, chosen !== undefined);
      expect(Object.fromEntries(differencesOf(system, verdicts, failures))).toEqual({});
      expect(verdicts.size).toBeGreaterThan(chosen === undefined ? 20 : 0);
    });
  });
});

const factsOf = (system: System): Omit<RunFacts, 'tookMs'> => ({
  system: system.title,
  version: system.version(),
  kubernetes: kubernetesVersion,
  ...(isByLabel ? { judgedBy: 'label' as const } : {}),
});

// @module-tag all
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare, reaches } from '@sluice/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { openRealCluster } from './cluster.ts';
import { differencesOf } from './differences.ts';
import { focus, judge, type Judgement, skip } from './judge.ts';
import { lackOfGroups } from './machine.ts';
import { buildPrograms, kubernetesVersion, type Programs } from './programs.ts';
import { junitOf, slugOf, writeRun } from './runs.ts';
import { kubeProxySystem, sluiceSystem } from './systems.ts';

let built: Programs | { readonly lack: string };
beforeAll(async () => {
  // CI's share is shorter than one run.
  built = isShare ? { lack: 'takes longer than a share of CI' } : await buildPrograms(reaches('all'));
}, 3_600_000);
beforeEach((context) => {
  needKernel(context);
  const lack = lackOfGroups() ?? ('lack' in built ? built.lack : undefined);
  if (lack !== undefined) context.skip(lack);
});

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
    const programs = built as Programs;
    const folder = mkdtempSync(join(tmpdir(), 'sluice-conformance-'));
    try {
      await using cluster = await openRealCluster(programs, system, folder);
      const startedMs = Date.now();
      const judgement = await judge(cluster.control, programs, cluster.plane.kubeconfig, folder, {
        focus: chosen ?? (isWhole ? focus : `${focus}.*${labelled}`),
        skip,
        processes: 8,
        timeoutMs: 3_000_000,
      });
      const { verdicts, failures } = judgement;
      process.stdout.write(`${system.title}: ${verdicts.size} tests of Kubernetes\n`);
      keep(folder, system.title, judgement);
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
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** Keeps the log of the tests, those of the programs, and JUnit in `dist/conformance`, for who looks for the reason of a failure. */
function keep(folder: string, system: string, { verdicts, failures }: Judgement): void {
  const kept = join(import.meta.dirname, '../../dist/conformance', slugOf(system));
  rmSync(kept, { recursive: true, force: true });
  mkdirSync(kept, { recursive: true });
  const logs = readdirSync(folder, { encoding: 'utf8', recursive: true }).filter(
    (path) => /^(?:[\w-]+\/)?[\w-]+\.log$/.test(path) && statSync(join(folder, path)).isFile(),
  );
  for (const path of logs) copyFileSync(join(folder, path), join(kept, path.replace('/', '-')));
  writeFileSync(join(kept, 'junit.xml'), junitOf({ system, verdicts: Object.fromEntries(verdicts) }, failures));
}

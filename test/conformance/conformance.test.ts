// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare, reaches } from '@sluice/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { openRealCluster } from './cluster.ts';
import { differencesOf } from './differences.ts';
import { focus, judge, skip } from './judge.ts';
import { lackOfGroups } from './machine.ts';
import { buildPrograms, type Programs } from './programs.ts';
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
      const { verdicts, failures } = await judge(cluster.control, programs, cluster.plane.kubeconfig, folder, {
        focus: isWhole ? focus : `${focus}.*${labelled}`,
        skip,
        processes: 8,
        timeoutMs: 3_000_000,
      });
      process.stdout.write(`${system.title}: ${verdicts.size} tests of Kubernetes\n`);
      expect(Object.fromEntries(differencesOf(system, verdicts, failures))).toEqual({});
      expect(verdicts.size).toBeGreaterThan(20);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

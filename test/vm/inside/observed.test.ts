// @module-tag all
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomOf, seed } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { minorsOfTier } from '../../parity/binaries.ts';
import { drawCluster, itemsOf } from '../../parity/clusters.ts';
import { ObservedKubeProxy, parity } from '../../parity/observed-node.ts';
import { needPrograms } from '../../parity/programs.ts';
import { ipvsSetting, recordFolder, recordedServices } from '../../parity/recorded.ts';

/** The real kube-proxy in mode ipvs, which needs a kernel with its modules: observed, and compared with Sluice's bundle of the same objects. */

describe.each(minorsOfTier)('kube-proxy %s', (minor) => {
  const programs = needPrograms(minor);

  test('in mode ipvs: what is observed is equivalent to the bundle', { timeout: 1_200_000 }, async () => {
    const cluster = itemsOf(drawCluster(recordedServices, randomOf(seed)));
    const node = await ObservedKubeProxy.start(programs(), ipvsSetting, cluster);
    try {
      const file = await node.observe();
      record(minor, file, node.objects);
      const { report } = await parity(file, await node.render());
      expect(report).toMatchObject({
        modes: { observed: expect.arrayContaining(['ipvs']), desired: 'ipvs' },
        coverage: { notCovered: [] },
      });
      const open = report.differences.filter(({ code }) => code !== 'VERSION_ZERO_RANGE');
      expect(open).toEqual([]);
      expect(report.coverage.cases).toBeGreaterThan(100);
    } finally {
      await node.close();
    }
  });
});

function record(minor: string, file: string, objects: readonly object[]): void {
  const folder = process.env[recordFolder];
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  cpSync(file, join(folder, `kube-proxy-${minor}.json`));
  writeFileSync(join(folder, 'objects.json'), `[\n${objects.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`);
}

// @module-tag test
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { KubeItem } from './api-server.ts';
import { minors } from './binaries.ts';
import { parity } from './observed-node.ts';
import { dropsPods, ipvsSetting, recordedFolder } from './recorded.ts';
import { Renderer } from './sluice-node.ts';

test.each(minors)(
  'what kube-proxy %s in mode ipvs left is equivalent to the bundle',
  { timeout: 120_000 },
  async (minor) => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-recorded-'));
    try {
      const objects = JSON.parse(readFileSync(join(recordedFolder, 'objects.json'), 'utf8')) as readonly KubeItem[];
      const renderer = new Renderer(ipvsSetting, minor, join(dir, 'renderer'));
      await renderer.render(objects);
      const { report } = await parity(join(recordedFolder, `kube-proxy-${minor}.json`), renderer.bundle);
      expect(report).toMatchObject({ modes: { desired: 'ipvs' }, coverage: { notCovered: [] } });
      const open = report.differences.filter(({ observed }) => !(dropsPods(minor) && observed === 'drop'));
      expect(open).toEqual([]);
      expect(report.differences.length > 0).toBe(dropsPods(minor));
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
);

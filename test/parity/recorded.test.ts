// @module-tag test
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { KubeItem } from './api-server.ts';
import { minors } from './binaries.ts';
import { parity } from './observed-node.ts';
import { ipvsSetting, recordedFolder } from './recorded.ts';
import { Renderer } from './sluice-node.ts';

/** shop/s0 and shop/s6 have a source range 0.0.0.0/0, which admits all sources: since 1.34 such a range counts as none. */
const zeroRange = [
  ['198.51.100.101:80/tcp', 'drop', 'reject'],
  ['198.51.100.107:80/sctp', 'drop', 'dnat 10.244.1.70:8080; affinity 10800 s'],
  ['198.51.100.107:80/sctp', 'drop', 'masquerade dnat 10.244.1.70:8080; affinity 10800 s'],
];

test.each(minors)(
  'what kube-proxy %s in mode ipvs left is equivalent to the bundle, but for the documented difference of its version',
  { timeout: 120_000 },
  async (minor) => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-recorded-'));
    try {
      const objects = JSON.parse(readFileSync(join(recordedFolder, 'objects.json'), 'utf8')) as readonly KubeItem[];
      const renderer = new Renderer(ipvsSetting, minor, join(dir, 'renderer'));
      await renderer.render(objects);
      const { report } = await parity(withVersion(minor, dir), renderer.bundle);
      expect(report).toMatchObject({ modes: { desired: 'ipvs' }, coverage: { notCovered: [] } });
      const found = report.differences.map((one) => [one.frontend, one.observed, one.desired]);
      expect(found).toEqual(minor < '1.34' ? zeroRange : []);
      for (const one of report.differences) {
        expect(one).toMatchObject({ cause: 'version', code: 'VERSION_ZERO_RANGE' });
        expect(one.advice).toContain(`kube-proxy ${minor} in mode ipvs ignores a source range of all addresses`);
      }
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
);

/** The recorded file, with the version as the port of that kube-proxy says it. @returns its path in a folder */
function withVersion(minor: string, dir: string): string {
  const seen = JSON.parse(readFileSync(join(recordedFolder, `kube-proxy-${minor}.json`), 'utf8')) as {
    readonly tools: object;
  };
  const file = join(dir, 'observed.json');
  writeFileSync(file, JSON.stringify({ ...seen, tools: { ...seen.tools, 'kube-proxy': `v${minor}.0` } }));
  return file;
}

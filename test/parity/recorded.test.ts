// @module-tag test
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ParityReport } from '@sluice/bundle';
import { atTier } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { KubeItem } from './api-server.ts';
import { type Minor, minors, newest } from './binaries.ts';
import { parity } from './observed-node.ts';
import { ipvsSetting, recordedFolder } from './recorded.ts';
import { type ProxyConfig, type ProxySetting, settings } from './settings.ts';
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
    const report = await compared(minor, {});
    expect(report).toMatchObject({ modes: { desired: 'ipvs' }, coverage: { notCovered: [] } });
    const found = report.differences.map((one) => [one.frontend, one.observed, one.desired]);
    expect(found).toEqual(minor < '1.34' ? zeroRange : []);
    for (const one of report.differences) {
      expect(one).toMatchObject({ cause: 'version', code: 'VERSION_ZERO_RANGE' });
      expect(one.advice).toContain(`kube-proxy ${minor} in mode ipvs ignores a source range of all addresses`);
    }
  },
);

const ofIpvs: readonly ProxySetting[] = [
  { title: 'scheduler sh', config: { ipvs: { scheduler: 'sh' } } },
  { title: 'scheduler lc', config: { ipvs: { scheduler: 'lc' } } },
  { title: 'strict ARP', config: { ipvs: { scheduler: 'rr', strictARP: true } } },
  { title: 'excluded CIDRs', config: { ipvs: { scheduler: 'rr', excludeCIDRs: ['203.0.113.0/24'] } } },
];
/** One external IP alone may have been taken from its Service: that is no setting. */
const others = [...settings.filter(({ title }) => title !== 'no external IPs'), ...ofIpvs].filter(
  ({ config, commands }) => config && !commands,
);

test.each(atTier({ quick: others.slice(0, 1), all: others }))(
  'mode ipvs: $title in the profile alone is named as such, once for each frontend',
  { timeout: 120_000 },
  async ({ config = {} }) => {
    const { differences, coverage } = await compared(newest, config);
    expect(differences.filter(({ cause }) => cause !== 'config')).toEqual([]);
    const places = differences.map(({ family, frontend }) => `${family} ${frontend}`);
    expect(new Set(places).size).toBe(places.length);
    expect(coverage.notCovered.filter(({ matters }) => matters)).toEqual([]);
  },
);

/** The recorded kube-proxy beside a bundle of its objects. @param config what the profile has in another way */
async function compared(minor: Minor, config: ProxyConfig): Promise<ParityReport> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-recorded-'));
  try {
    const objects = JSON.parse(readFileSync(join(recordedFolder, 'objects.json'), 'utf8')) as readonly KubeItem[];
    const setting = { ...ipvsSetting, config: { ...ipvsSetting.config, ...config } };
    const renderer = new Renderer(setting, minor, join(dir, 'renderer'));
    await renderer.render(objects);
    return (await parity(withVersion(minor, dir), renderer.bundle)).report;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The recorded file, with the version as the port of that kube-proxy says it. @returns its path in a folder */
function withVersion(minor: string, dir: string): string {
  const seen = JSON.parse(readFileSync(join(recordedFolder, `kube-proxy-${minor}.json`), 'utf8')) as {
    readonly tools: object;
  };
  const file = join(dir, 'observed.json');
  writeFileSync(file, JSON.stringify({ ...seen, tools: { ...seen.tools, 'kube-proxy': `v${minor}.0` } }));
  return file;
}

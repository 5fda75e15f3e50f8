import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { canonicalRule } from '@sluice/netfilter';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { type SluicedConfig, defaultConfig } from '../../config.ts';
import { sampleBundle, writeBundle } from '../../testing/bundle.fixture.ts';
import { readServiceFiles, type ServiceFiles } from './service-files.ts';

let config: SluicedConfig;
beforeEach(() => {
  const bundle = mkdtempSync(`${tmpdir()}/sluiced-files-`);
  onTestFinished(() => rmSync(bundle, { recursive: true }));
  const { signatures, ...rest } = defaultConfig('node-a');
  config = { ...rest, bundle, signatures: { ...signatures, policy: 'none' } };
});

async function filesOf(bundle: ReadonlyMap<string, string>, service: string): Promise<ServiceFiles> {
  writeBundle(config.bundle, bundle);
  const read = await readServiceFiles(config, service);
  if (typeof read !== 'object') throw new Error(read);
  return read;
}

test('resolves the files of a Service for this node', async () => {
  const { files, servers, rules } = await filesOf(ipvsBundle, 'shop/web');
  expect(files.map(({ path }) => path)).toEqual(
    ['ipset', 'iptables', 'ipvs'].map((tool) => `${config.bundle}/profiles/default/services/shop/web.${tool}`),
  );
  const text = files.map((file) => file.text).join('');
  expect(text).toContain('\n-a -t 203.0.113.9:80 -r 10.244.1.5:8080 -m -w 1\n');
  expect(text).not.toMatch(/[@$]/);
  expect([...servers]).toEqual(expect.arrayContaining(['-t 10.96.0.10:80', '-t 192.0.2.50:80', '-t 203.0.113.9:80']));
  expect(servers).not.toContain('-t 10.96.0.99:80');
  const [rule = ''] = rules;
  expect(rule).toBe(canonicalRule(rule));
  expect(rule).toContain('-A KUBE-IPVS-OUT-FILTER -s 203.0.113.9');
});

test('takes no rules from the files in mode iptables, where rules name their Service', async () => {
  const { files, servers, rules, version } = await filesOf(
    sampleBundle({ services: { 'shop/web': [1], 'shop/web-2': [2] } }),
    'shop/web',
  );
  expect(files).toHaveLength(1);
  expect(files[0]?.text).toMatch(/^\*nat\n:KUBE-SVC-.*\n(?:.*\n)*COMMIT\n$/);
  expect([servers.size, rules.size]).toEqual([0, 0]);
  expect(version).toMatch(/^[0-9a-f]{16}$/);
});

test('returns no files for an unknown Service, and the reason for a directory without a bundle', async () => {
  expect((await filesOf(sampleBundle(), 'shop/none')).files).toEqual([]);
  writeBundle(config.bundle, new Map([...sampleBundle(), ['cluster.yaml', 'nothing\n']]));
  expect(await readServiceFiles(config, 'shop/web')).toMatch(/cluster\.yaml/);
  expect(await readServiceFiles({ ...config, bundle: `${config.bundle}/nowhere` }, 'shop/web')).toBeUndefined();
});

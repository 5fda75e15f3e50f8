import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { afterAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { type Comparison, compareWays } from '../../packages/renderer/src/review/alike.ts';
import { type Example, listExamples, renderArguments } from '../../tools/examples.ts';

const sluice = join(import.meta.dirname, '../../bin/sluice');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-alike-'));
afterAll(() => rmSync(scratch, { recursive: true }));

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

interface Config {
  apiVersion: string;
  kind: string;
  clusterName: string;
  profiles?: Record<string, unknown>[];
  nodes?: Record<string, unknown>[];
}

/** Both modes in one bundle: the first profile of the example again, in mode ipvs, for a node without endpoints. */
function renderBoth(example: Example): { readonly files: BundleFiles; readonly original: unknown } {
  const plain: Config = { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', clusterName: example.name };
  const config = example.config === undefined ? plain : (parse(readFileSync(example.config, 'utf8')) as Config);
  const [first = { name: 'default' }, ...others] = config.profiles ?? [];
  const { iptables: _iptables, ...common } = first;
  const labels = { 'example.com/pool': 'virtual' };
  const profiles = [
    { ...common, name: 'virtual', mode: 'ipvs', nodeSelector: { matchLabels: labels } },
    first,
    ...others,
  ];
  const node = { name: 'node-9', labels, addresses: ['192.0.2.99', '2001:db8:2::99'], podCIDRs: ['10.244.9.0/24'] };
  const file = join(scratch, `${example.name}.yaml`);
  writeFileSync(file, stringify({ ...config, profiles, nodes: [...(config.nodes ?? []), node] }));
  const output = join(scratch, example.name);
  execFileSync(sluice, renderArguments({ ...example, config: file }, output), { stdio: 'ignore' });
  return { files: readTree(output) as BundleFiles, original: first['name'] };
}

/** Examples of mode iptables, with all they need in their folder of manifests. */
const examples = listExamples().filter(({ name }) => !['08-git', '10-ipvs', '11-mixed'].includes(name));

describe.each(examples)('$name', (example) => {
  test(
    'both modes and both layouts serve it alike, up to the published differences',
    () => {
      const { files, original } = renderBoth(example);
      const compared = compareWays(files) as readonly Comparison[];
      const layouts = compared.filter(({ kind }) => kind === 'layouts');
      // Other profiles may be configured otherwise.
      const modes = compared.filter(({ kind, between }) => kind === 'profiles' && between[0] === original);
      expect(layouts.every(({ flows }) => flows > 0)).toBe(true);
      expect(modes.reduce((sum, { flows }) => sum + flows, 0)).toBeGreaterThan(10);
      expect([...layouts, ...modes].flatMap(({ unexplained }) => unexplained)).toEqual([]);
    },
    startsProgramsMs,
  );
});

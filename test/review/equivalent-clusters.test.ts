// @module-tag test
import { compareText } from '@sluice/netfilter';
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render, type Rendered } from '../../packages/renderer/src/render/render.ts';
import { type Comparison, compareModesAndLayouts } from '../../packages/renderer/src/review/prove/equivalence.ts';
import { clusterCIDR, drawCluster, itemsOf } from '../parity/clusters.ts';
import { nftablesSettings, type ProxySetting, settings as iptablesSettings } from '../parity/settings.ts';
import { isOfAll, mayBeUnseen, refusedIn } from './published.ts';

/** Random clusters under each setting, with a node in each mode: every two modes differ as published, and the renderer reports where. */

const clusters = atTier({ quick: 3, test: 12, all: 80 });
const services = 6;

const modes = ['iptables', 'ipvs', 'nftables'] as const;
const label = 'example.com/mode';

/** Those of mode nftables, and more about node ports. */
const settings: readonly ProxySetting[] = [
  ...nftablesSettings,
  ...iptablesSettings.filter(({ title }) => /loopback|localhost|liberal conntrack/.test(title)),
];

/** The last node has no endpoints. */
const third = {
  name: 'node-3',
  labels: { [label]: 'nftables' },
  addresses: ['192.0.2.13', 'fd00::13'],
  podCIDRs: ['10.244.3.0/24', 'fd00:10:244:3::/64'],
};

function renderIn(setting: ProxySetting, random: () => number): Rendered {
  const { mode: _mode, linux: _linux, ...own }: Readonly<Record<string, unknown>> = setting.config ?? {};
  const profiles = modes.map((mode) => ({
    name: mode,
    mode,
    clusterCIDR: clusterCIDR.join(','),
    // masqueradeAll is an option of each mode.
    iptables: own['nftables'] ?? {},
    ...own,
    nodeSelector: { matchLabels: { [label]: mode } },
  }));
  const text = stringify({
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluiceConfig',
    complete: true,
    profiles,
    nodes: [third],
  });
  const { config, problems } = readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] });
  const wrong = problems.find(({ level }) => level === 'error');
  if (wrong) throw new Error(wrong.message);
  const names = ['node-1', 'node-2'];
  const items = itemsOf(drawCluster(services, random)).map((item) => {
    const at = item.kind === 'Node' ? names.indexOf(item.metadata.name) : -1;
    const { metadata } = item;
    return at < 0 ? item : { ...item, metadata: { ...metadata, labels: { ...metadata.labels, [label]: modes[at] } } };
  });
  const documents = items.map((item) => `${JSON.stringify(item)}\n`).join('---\n');
  const change = load([{ file: 'all.yaml', text: documents }]).objects;
  const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
  return render(input);
}

const met = new Map<string, number>();

describe.each(Array.from({ length: clusters }, (_, index) => ({ index, setting: settings[index % settings.length]! })))(
  'cluster $index, $setting.title',
  ({ index, setting }) => {
    test('every two modes differ as published', { timeout: 120_000 }, () => {
      const { files, problems } = renderIn(setting, randomOf(seed + index));
      const compared = compareModesAndLayouts(files) as readonly Comparison[];
      const pairs = compared.filter(({ kind }) => kind === 'profiles').map(({ between }) => between.join(' '));
      expect(new Set(pairs)).toEqual(new Set(['iptables ipvs', 'iptables nftables', 'nftables ipvs']));
      expect(compared.flatMap(({ between, unexplained }) => unexplained.map((row) => ({ between, row })))).toEqual([]);
      const reported = problems
        .filter(({ level }) => level === 'differs')
        .map(({ object = '', message, code }) => {
          const of = object.startsWith('Profile ') ? '*' : object.replace('Service ', '');
          return `${of} ${/^Mode (\w+)/.exec(message)?.[1]} ${code}`;
        });
      const found = compared
        .filter(({ between, profile }) => between[0] === 'iptables' && profile === between[1])
        .flatMap(({ between, differences }) => differences.map((one) => ({ mode: between[1], ...one })))
        .filter(({ code }) => code.startsWith('DIFFERS_'))
        .flatMap(({ mode, code, services: of }) => (isOfAll(code) ? ['*'] : of).map((one) => `${one} ${mode} ${code}`));
      for (const { between, differences } of compared)
        for (const { code, flows } of differences) {
          const key = `${between.join(', ')}: ${code}`;
          met.set(key, (met.get(key) ?? 0) + flows);
        }
      const refused = refusedIn(compared);
      const isClosed = /loopback|localhost/.test(setting.title);
      const seen = reported.filter((line) => found.includes(line) || !mayBeUnseen(line, refused, isClosed));
      expect([...new Set(found)].toSorted(compareText)).toEqual(seen.toSorted(compareText));
    });
  },
);

afterAll(() =>
  console.log(
    [...met]
      .map(([key, flows]) => `${key}: ${flows} flows`)
      .toSorted(compareText)
      .join('\n'),
  ),
);

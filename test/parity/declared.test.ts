// @module-tag test
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier, randomOf, reaches, seed } from '@sluice/testing';
import { afterAll, expect, test } from 'vitest';
import { listExamples } from '../../tools/examples.ts';
import type { KubeItem } from './api-server.ts';
import { newest } from './binaries.ts';
import { drawCluster, itemsOf } from './clusters.ts';
import { type DeclaredCompared, comparedWithPackets, comparedWithRules } from './declared.ts';
import { nodes, objectsOf } from './example-objects.ts';
import { ObservedKubeProxy } from './observed-node.ts';
import { needPrograms } from './programs.ts';
import { ipvsSetting, recordedFolder } from './recorded.ts';
import { nftablesSettings, type ProxyConfig, type ProxySetting, settings } from './settings.ts';
import { Renderer } from './sluice-node.ts';

/** What `sluice prove` declares is what the real kube-proxy does: each flow by kube-proxy's own rules, and some by packets. */

const services = 8;
/** Clusters of one setting, which one kube-proxy gets one after another. */
const perSetting = atTier({ quick: 1, all: 2 });
const settingsMost = atTier({ quick: 1, test: 3, all: 40, soak: 400 });
/** Flows of a cluster of which packets are sent. */
const sample = atTier({ quick: 100, all: 300 });
const examples = listExamples();

const programs = needPrograms();

const met = { rules: new Map<string, number>(), packets: new Map<string, number>() };
afterAll(() => console.log(`Declared flows by rules: ${listed(met.rules)}\nby packets: ${listed(met.packets)}`));

const listed = (kinds: ReadonlyMap<string, number>): string =>
  [...kinds].map(([kind, count]) => `${kind} ${count}`).join('; ');

/** Those of both modes by turns. */
const mixed = settings.flatMap((setting, at): ProxySetting[] => [setting, ...nftablesSettings.slice(at, at + 1)]);

const cidrs = { with: {}, without: { clusterCIDR: '' } } as const satisfies Record<string, ProxyConfig>;
const withCIDR = (setting: ProxySetting, cidr: keyof typeof cidrs): ProxySetting => ({
  ...setting,
  config: { ...setting.config, ...cidrs[cidr] },
});

async function hold(node: ObservedKubeProxy, random: () => number): Promise<readonly string[]> {
  const bundle = await node.render();
  const rules = note('rules', comparedWithRules(bundle, await node.observe()));
  const packets = note('packets', await comparedWithPackets(bundle, node.wired, sample, random));
  return [...rules.faults, ...packets.faults];
}

function note(by: keyof typeof met, held: DeclaredCompared): DeclaredCompared {
  for (const [kind, count] of held.kinds) met[by].set(kind, (met[by].get(kind) ?? 0) + count);
  return held;
}

const groups = (['with', 'without'] as const).flatMap((cidr) =>
  Array.from({ length: settingsMost }, (_, at) => ({ cidr, at, setting: mixed[at % mixed.length]! })).map((one) => ({
    ...one,
    title: `${one.setting.config?.['mode'] === 'nftables' ? 'nftables' : 'iptables'}, ${one.setting.title}`,
  })),
);

test.for(groups)(
  'random clusters $at, mode $title, $cidr clusterCIDR: kube-proxy does what is declared',
  { timeout: 600_000 },
  async ({ cidr, at, setting }) => {
    const clusterOf = (n: number): readonly KubeItem[] =>
      itemsOf(drawCluster(services, randomOf(seed + at * perSetting + n)));
    const node = await ObservedKubeProxy.start(programs(), withCIDR(setting, cidr), clusterOf(0));
    try {
      for (let n = 0; n < perSetting; n++) {
        if (n > 0) await node.put(clusterOf(n));
        expect(await hold(node, randomOf(seed + at + n)), `cluster ${n}`).toEqual([]);
      }
    } finally {
      await node.close();
    }
  },
);

const modes = [
  ['iptables', settings[0]],
  ['nftables', nftablesSettings[0]],
] as const;
const proxies = modes.flatMap(([mode, setting]) =>
  (['with', 'without'] as const).map((cidr) => ({ mode, cidr, setting: withCIDR(setting, cidr) })),
);

test.for(proxies)(
  'the examples in mode $mode, $cidr clusterCIDR: kube-proxy does what is declared',
  { timeout: 600_000 },
  async ({ setting }) => {
    const chosen = reaches('all') ? examples : examples.filter(({ name }) => /^0[357]/.test(name));
    const node = await ObservedKubeProxy.start(programs(), setting, objectsOf(chosen[0]!), nodes);
    try {
      for (const [at, example] of chosen.entries()) {
        if (at > 0) await node.put(objectsOf(example));
        expect(await hold(node, randomOf(seed + at)), `of ${example.name}`).toEqual([]);
      }
    } finally {
      await node.close();
    }
  },
);

test('mode ipvs: the recorded rules and servers of kube-proxy do what is declared', { timeout: 120_000 }, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-declared-'));
  try {
    const objects = JSON.parse(readFileSync(join(recordedFolder, 'objects.json'), 'utf8')) as readonly KubeItem[];
    const renderer = new Renderer(ipvsSetting, newest, join(dir, 'renderer'));
    await renderer.render(objects);
    const { kinds, faults } = comparedWithRules(renderer.bundle, join(recordedFolder, `kube-proxy-${newest}.json`));
    expect(faults).toEqual([]);
    expect([...kinds.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(100);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test('what is declared of other settings is not what kube-proxy does', { timeout: 180_000 }, async () => {
  const node = await ObservedKubeProxy.start(programs(), settings[0], itemsOf(drawCluster(services, randomOf(seed))));
  try {
    const other = await node.render({ clusterCIDR: '' });
    expect(comparedWithRules(other, await node.observe()).faults).not.toEqual([]);
    expect((await comparedWithPackets(other, node.wired, 10_000, randomOf(seed))).faults).not.toEqual([]);
  } finally {
    await node.close();
  }
});

test('each kind of outcome is met', () => {
  if (!reaches('test')) return;
  const kinds = ['drop', 'endpoints', 'endpoints, masqueraded', 'endpoints, some masqueraded', 'pass', 'reject'];
  for (const by of ['rules', 'packets'] as const) expect([...met[by].keys()]).toEqual(expect.arrayContaining(kinds));
});

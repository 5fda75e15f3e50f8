// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ParityDifference } from '@sluice/bundle';
import { atTier, randomOf, seed } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { type Minor, minorsOfTier, newest } from './binaries.ts';
import { drawCluster, itemsOf } from './clusters.ts';
import { observeOn, ObservedKubeProxy, parity } from './observed-node.ts';
import { planted, plantedCluster, plantedInTable } from './planted.ts';
import { needPrograms } from './programs.ts';
import { nftablesSettings, type ProxySetting, settings } from './settings.ts';
import { Renderer, SluiceNode } from './sluice-node.ts';

/** The rules of the real kube-proxy, observed in a kernel and compared with Sluice's bundle of the same objects. */

const programs = needPrograms();

/** kube-proxy has mode nftables by default since 1.31. */
const modesOf = (minor: Minor): readonly (readonly [string, readonly ProxySetting[]])[] => [
  ['iptables', settings],
  ...(minor < '1.31' ? [] : [['nftables', nftablesSettings] as const]),
];

/** What rules do not follow of a version: each with its documented code. */
const isOfVersion =
  (minor: Minor, { config }: ProxySetting) =>
  ({ cause, code }: ParityDifference): boolean =>
    cause === 'version' &&
    config?.['mode'] === 'nftables' &&
    ((code === 'VERSION_EARLY_CHECKS' && minor === '1.31') ||
      (code === 'VERSION_LOCALHOST_REJECTS' && minor >= '1.38'));

describe.each(minorsOfTier)('kube-proxy %s', (minor) => {
  const count = atTier({ quick: 1, test: 1, all: minor >= newest ? 20 : 10, soak: 100 });
  const clusters = modesOf(minor).flatMap(([mode, list]) => {
    const ofVersion = list.filter(({ since = '1.28' }) => since <= minor);
    return Array.from({ length: count }, (_, index): [string, ProxySetting, number] => {
      const setting = ofVersion[index % ofVersion.length] as ProxySetting;
      return [`cluster ${index}, mode ${mode}, ${setting.title}`, setting, index];
    });
  });
  const ofMinor = needPrograms(minor);

  test.for(clusters)('%s: equivalent in the same mode', { timeout: 180_000 }, async ([, setting, index]) => {
    const cluster = itemsOf(drawCluster(12, randomOf(seed + index)));
    const node = await ObservedKubeProxy.start(ofMinor(), setting, cluster);
    try {
      const bundle = await node.render();
      const { exitCode, report } = await parity(await node.observe(), bundle);
      const isKnown = isOfVersion(minor, setting);
      expect(report.differences.filter((one) => !isKnown(one))).toEqual([]);
      const [result, code] = report.differences.length === 0 ? ['equivalent', 0] : ['different', 1];
      expect(report).toMatchObject({ result, coverage: { notCovered: [] } });
      expect(report.coverage.cases).toBeGreaterThan(100);
      expect(exitCode).toBe(code);
      const saved = (await parity(await node.observeSaved(), bundle)).report;
      const { cases, notCovered } = saved.coverage;
      expect({ result: saved.result, cases, gaps: notCovered.filter(({ matters }) => matters) }).toEqual({
        result,
        cases: report.coverage.cases,
        gaps: [],
      });
    } finally {
      await node.close();
    }
  });
});

describe('kube-proxy 1.38 with node ports on localhost', () => {
  const of138 = needPrograms('1.38');

  test('its listener, which no rule shows, is the only difference', { timeout: 180_000 }, async () => {
    const nodePortAddresses = ['127.0.0.0/8', '192.0.2.0/24', '::1/128', 'fd00::/64'];
    const setting = { title: 'localhost', config: { mode: 'nftables', nodePortAddresses } };
    const node = await ObservedKubeProxy.start(of138(), setting, itemsOf(drawCluster(12, randomOf(seed))));
    try {
      const { report } = await parity(await node.observe(), await node.render());
      expect(new Set(report.differences.map(({ code, cause }) => code ?? cause))).toEqual(
        new Set(['VERSION_LOCALHOST_LISTENER']),
      );
    } finally {
      await node.close();
    }
  });
});

test('in another mode only documented differences are found', { timeout: 180_000 }, async () => {
  const cluster = itemsOf(drawCluster(12, randomOf(seed)));
  const node = await ObservedKubeProxy.start(programs(), settings[0], cluster);
  try {
    const file = await node.observe();
    for (const mode of ['nftables', 'ipvs']) {
      const { exitCode, report } = await parity(file, await node.render({ mode }));
      expect(report.differences.filter(({ cause }) => cause !== 'mode')).toEqual([]);
      expect(report.differences.length).toBeGreaterThan(0);
      expect({ result: report.result, exitCode }).toEqual({ result: 'equivalent', exitCode: 0 });
    }
  } finally {
    await node.close();
  }
});

test.each([
  ['iptables', 'flat'],
  ['iptables', 'tree'],
  ['nftables', 'tree'],
] as const)(
  "Sluice's own rules in mode %s, layout %s, are equivalent to their bundle",
  { timeout: 180_000 },
  async (mode, layout) => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-own-'));
    const cluster = itemsOf(drawCluster(12, randomOf(seed)));
    const setting = { title: mode, config: { mode } };
    const renderer = new Renderer(setting, programs().minor, join(dir, 'renderer'));
    await renderer.render(cluster);
    const node = await SluiceNode.start(layout, renderer, programs().wire, join(dir, layout));
    try {
      await node.put();
      const { report } = await parity(await observeOn(node.node.host, join(dir, 'observed')), renderer.bundle);
      expect(report).toMatchObject({ result: 'equivalent', differences: [], coverage: { notCovered: [] } });
    } finally {
      await node.close();
      rmSync(dir, { recursive: true, force: true });
    }
  },
);

describe.each([
  ['iptables', settings[0], planted],
  ['nftables', nftablesSettings[0], plantedInTable],
] as const)('a single difference in mode %s', (_mode, setting, differences) => {
  test('is found with its cause, and nothing else is', { timeout: 300_000 }, async () => {
    const node = await ObservedKubeProxy.start(programs(), setting, plantedCluster);
    try {
      const bundle = await node.render();
      expect((await parity(await node.observe(), bundle)).report).toMatchObject({ result: 'equivalent' });
      for (const { title, plant, undo, finds, result } of differences) {
        await node.run(plant);
        const { report } = await parity(await node.observe(), bundle);
        await node.run(undo ?? restore);
        const found = report.differences.map(({ frontend, cause, rule }) => ({
          frontend,
          cause,
          ...(rule === undefined ? {} : { rule }),
        }));
        const unlike = found.filter(
          (one) =>
            !finds.some(
              (wanted) =>
                wanted.cause === one.cause &&
                wanted.frontend.test(one.frontend) &&
                (wanted.rule?.test(one.rule ?? '') ?? true),
            ),
        );
        expect.soft(unlike, `${title}: other differences`).toEqual([]);
        for (const wanted of finds)
          expect
            .soft(
              found.some((one) => wanted.cause === one.cause && wanted.frontend.test(one.frontend)),
              `${title}: ${wanted.cause} of ${wanted.frontend}`,
            )
            .toBe(true);
        const usual = finds.length === 0 ? 'incomplete' : 'different';
        expect.soft(report.result, title).toBe(result ?? usual);
      }
    } finally {
      await node.close();
    }
  });
});

const restore = 'iptables-nft-restore < /run/planted.iptables';

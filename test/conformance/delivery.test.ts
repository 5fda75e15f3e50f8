// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare, reaches } from '@sluice/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { openRealCluster } from './cluster.ts';
import type { Delivered } from './delivery-inside.ts';
import { lackOfGroups } from './machine.ts';
import { buildPrograms, type Programs } from './programs.ts';
import { kubeProxySystem, sluiceSystem } from './systems.ts';

let built: Programs | { readonly lack: string };
beforeAll(async () => {
  built = isShare ? { lack: 'takes longer than a share of CI' } : await buildPrograms(reaches('all'));
}, 3_600_000);
beforeEach((context) => {
  needKernel(context);
  const lack = lackOfGroups() ?? ('lack' in built ? built.lack : undefined);
  if (lack !== undefined) context.skip(lack);
});

/** Services beside those that change: `SLUICE_SERVICES=1000`. */
const more = process.env['SLUICE_SERVICES'] ?? '0';
const setting = { mode: 'nftables', layout: 'tree' } as const;

describe.each([
  sluiceSystem({ ...setting, watch: 'node' }),
  ...(reaches('soak') ? [sluiceSystem(setting), kubeProxySystem('nftables')] : []),
])('$title', (system) => {
  test('a packet meets a change of the API soon', { timeout: 1_200_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-delivery-'));
    try {
      await using cluster = await openRealCluster(built as Programs, system, folder);
      const script = join(import.meta.dirname, 'delivery-inside.ts');
      const argv = [process.execPath, script, cluster.plane.kubeconfig, '20', more];
      const text = await cluster.nodes.get('node-1')?.run(argv, { timeoutMs: 900_000 });
      const { added, replaced, residentKb } = JSON.parse(text ?? '') as Delivered;
      const told = { system: system.title, more, added: spreadOf(added), replaced: spreadOf(replaced), residentKb };
      process.stdout.write(`${JSON.stringify(told)}\n`);
      // A loop that sleeps between the API server and the node took 28 to 56 s.
      expect(spreadOf(added).median).toBeLessThan(5_000);
      expect(spreadOf(replaced).median).toBeLessThan(5_000);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

function spreadOf(values: readonly number[]): {
  readonly median: number;
  readonly most: number;
  readonly least: number;
} {
  const sorted = values.toSorted((a, b) => a - b).map(Math.round);
  return { least: sorted[0] ?? 0, median: sorted[sorted.length >> 1] ?? 0, most: sorted.at(-1) ?? 0 };
}

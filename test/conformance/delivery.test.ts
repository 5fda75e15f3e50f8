// @module-tag all
// @module-tag alone
import { join } from 'node:path';
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import type { Delivered } from './inside/delivery.ts';
import { useRig } from './rig.ts';
import { kubeProxySystem, sluiceSystem } from './systems.ts';

const withCluster = useRig();

/** Services beside those that change: `SLUICE_SERVICES=1000`. */
const more = process.env['SLUICE_SERVICES'] ?? '0';
const setting = { mode: 'nftables', layout: 'tree' } as const;

describe.each([
  sluiceSystem({ ...setting, watch: 'node' }),
  ...(reaches('soak') ? [sluiceSystem(setting), kubeProxySystem('nftables')] : []),
])('$title', (system) => {
  test('a packet meets a change of the API soon', { timeout: 1_200_000 }, async () => {
    await withCluster(
      system,
      async ({ nodes, plane }) => {
        const script = join(import.meta.dirname, 'inside/delivery.ts');
        const argv = [process.execPath, script, plane.kubeconfig, '20', more];
        const text = await nodes.get('node-1')?.run(argv, { timeoutMs: 900_000 });
        const { added, replaced, residentKb } = JSON.parse(text ?? '') as Delivered;
        const told = { system: system.title, more, added: spreadOf(added), replaced: spreadOf(replaced), residentKb };
        process.stdout.write(`${JSON.stringify(told)}\n`);
        // A loop that sleeps between the API server and the node took 28 to 56 s.
        expect(spreadOf(added).median).toBeLessThan(5_000);
        expect(spreadOf(replaced).median).toBeLessThan(5_000);
      },
      `delivery ${system.title}`,
    );
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

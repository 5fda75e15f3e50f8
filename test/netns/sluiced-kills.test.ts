// @module-tag test
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { foreign, kinds, SluicedNode, until, webIn } from './sluiced-node.ts';

/** `kill -9` of the real `sluiced` on the real kernel, while it applies a bundle. */

let node: SluicedNode;
let directory: string;

beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  ({ directory } = node);
});
afterEach(() => node.remove());

const ways = [
  ...kinds.slice(0, atTier({ quick: 2, all: 4 })).map((kind) => ({ ...kind, mode: 'iptables' as const })),
  { backend: 'nft', layout: 'tree', mode: 'nftables' } as const,
];

describe.each(ways)('sluiced on $backend in layout $layout, mode $mode', ({ backend, layout, mode }) => {
  const rules = (): Promise<string> => (mode === 'nftables' ? node.frontends() : node.rules(backend));
  beforeEach((context) => needBackend(context, backend));

  test('killed at any moment, its next start ends on the old or the new rules', { timeout: 180_000 }, async () => {
    node.writeConfig(backend, `layout: ${layout}\n`);
    await node.tool([`iptables-${backend}-restore`, '--noflush'], foreign);
    const bundles = [webIn(mode, 1, 2), webIn(mode, 2, 3, 4)];
    const good: string[] = [];
    for (const files of bundles) {
      writeBundle(`${directory}/rendered`, files);
      expect((await node.sluiced('apply', `${directory}/rendered`)).exitCode).toBe(0);
      good.push(await rules());
    }
    const rounds = atTier({ quick: 2, all: 8, soak: 200 });
    for (let round = 0; round < rounds; round++) {
      const daemon = node.start();
      await until('the daemon starts', async () => (await node.get()) !== undefined);
      writeBundle(`${directory}/rendered`, bundles[round % 2] as ReadonlyMap<string, string>);
      await sleep(40 + ((round * 37) % 160));
      await node.kill(daemon);
      const next = node.start();
      await until('the restart reaches old or new rules', async () => {
        return (await node.get()) !== undefined && node.journal()?.open === null && good.includes(await rules());
      });
      await until('the newest bundle is applied', async () => {
        return node.journal()?.open === null && (await rules()) === good[round % 2];
      });
      await node.kill(next);
    }
  });
});

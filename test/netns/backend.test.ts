// @module-tag test
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { limits } from '../../packages/applier/src/limits.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, stores, until } from './sluiced-node.ts';
import { confirmFirst, missedDuring, publishRelease, reached } from './sluiced-probation.ts';

/** In which of the two rule stores the rules are, and how they move to the other one. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach((context) => needBackend(context, 'legacy'));
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

const other = { nft: 'legacy', legacy: 'nft' } as const;

/** Foreign rules in a store. */
async function foreignRules(backend: string, count: number): Promise<void> {
  const lines = Array.from({ length: count }, (_, n) => `-A POSTROUTING -s 198.51.100.${n}/32 -j ACCEPT`);
  await node.tool([`iptables-${backend}-restore`, '--noflush'], `*nat\n${lines.join('\n')}\nCOMMIT\n`);
}

describe.each(oneInTurn(stores, 'backend'))('rules in %s', (from) => {
  const to = other[from];
  const plane = { backend: from, mode: 'iptables' } as const;

  test('rules move to the other store while clients are served', { timeout: 90_000 }, async () => {
    await confirmFirst(node, plane);
    node.writeConfig('auto');
    await foreignRules(from, 2);
    const ours = async (backend: string): Promise<string> => {
      const lines = (await node.rules(backend)).split('\n');
      return lines.filter((line) => !line.includes('198.51.100.') && line.startsWith('-A')).join('\n');
    };
    const before = await ours(from);
    expect(await ours(to)).toBe('');
    const missed = await missedDuring(node, async () => {
      expect(await node.sluiced('backend', to)).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining(`in ${to}`),
      });
    });
    expect([missed, await ours(to), await ours(from)]).toEqual([0, before, '']);
    expect(await node.rules(from), 'foreign rules stay').toContain('198.51.100.1/32');
    expect(node.journal()?.backend).toBe(to);
    expect(await node.sluiced('backend', to)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('same') });
    expect(await node.sluiced('status')).toMatchObject({ exitCode: 0 });
    expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('same') });
    expect(await reached(node)).toBe('1');
  });

  test('rules stay, and an alarm names both counts, when foreign rules use the other store', {
    timeout: 60_000,
  }, async () => {
    await confirmFirst(node, plane);
    node.writeConfig('auto');
    await foreignRules(to, limits.storeRulesMin);
    node.start();
    const status = async (): Promise<{ readonly alarms: Record<string, string> }> =>
      JSON.parse((await node.get()) ?? '{"alarms":{}}') as never;
    const alarm = await until('an alarm', async () => (await status()).alarms['BACKEND_DOUBTFUL'], 20_000);
    expect(alarm).toContain(`${to} holds ${limits.storeRulesMin} foreign rules, ${from} holds 0 foreign rules`);
    expect(node.journal()?.backend).toBe(from);
    const result = await node.sluiced('backend', '-o', 'json');
    expect(result.exitCode).toBe(1);
    expect(JSON.parse(result.stdout)).toMatchObject({
      backend: from,
      stores: { [to]: { rules: limits.storeRulesMin } },
    });
    expect((await node.sluiced('backend', to)).stderr, 'the daemon holds the lock').toContain(
      'held by another sluiced',
    );
  });
});

test('one leftover rule does not decide the store', { timeout: 60_000 }, async () => {
  node.writeConfig('auto');
  const plain = JSON.parse((await node.sluiced('backend', '-o', 'json')).stdout) as {
    readonly backend: 'nft' | 'legacy';
  };
  await foreignRules(other[plain.backend], 1);
  publishRelease(node, { ...plain, mode: 'iptables' }, 1);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  expect(node.journal()?.backend).toBe(plain.backend);
  expect(await node.sluiced('backend', 'ipvs')).toMatchObject({ exitCode: 2 });
});

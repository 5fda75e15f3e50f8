// @module-tag test
import { atTier } from '@sluice/testing';
import { expect, test } from 'vitest';
import { isInGuest } from '../in-guest.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { until } from './sluiced-node.ts';
import { renderVip } from './vip-cluster.ts';

/**
 * A load balancer asks each node whether it has an endpoint: the same answer in every mode, as kube-proxy gives it. Where the profile names no
 * network, mode nftables listens on the node's own address alone, as it opens node ports.
 */

withNode();

const [first, ...others] = [
  ['nftables', 'tree', 'nft'],
  ['iptables', 'tree', 'nft'],
  ['iptables', 'flat', 'nft'],
  ['iptables', 'tree', 'legacy'],
] as const;
const planes = isInGuest
  ? ([['ipvs', 'tree', 'legacy']] as const)
  : atTier({ quick: [first], all: [first, ...others] });

/** The address of the node, and one that every machine has. */
const [own, loopback] = ['192.0.2.11', '127.0.0.1'];

/** The status and the count that the port answers at an address; undefined: nothing does. */
async function answer(address = own): Promise<string | undefined> {
  const ask = ['curl', '-s', '-m', '2', '-w', ' %{http_code}', `http://${address}:30600/`];
  const text = await node.tool(ask).catch(() => '');
  const [, endpoints, status] = /"localEndpoints": (\d+),[^]* (\d{3})$/.exec(text) ?? [];
  return status === undefined ? undefined : `${status} ${endpoints}`;
}

for (const [mode, layout, store] of planes)
  test(`mode ${mode}, layout ${layout}, store ${store}: answers 200 with local endpoints, and 503 without`, {
    timeout: isInGuest ? 300_000 : 60_000,
  }, async (context) => {
    needBackend(context, store);
    node.writeConfig(store, layout === 'flat' ? 'layout: flat\n' : '');
    renderVip(node, mode, ['10.244.1.5']);
    await node.tool(['ip', 'address', 'add', `${own}/32`, 'dev', 'lo']);
    node.start();
    const answers: string[] = [];
    for (const [local, expected] of [
      [['10.244.1.5'], '200 1'],
      [['10.244.1.5', '10.244.1.6'], '200 2'],
      [[], '503 0'],
    ] as const) {
      renderVip(node, mode, local);
      await until(`it answers ${expected}`, async () => (await answer()) === expected).catch(() => undefined);
      answers.push((await answer()) ?? 'nothing');
    }
    expect(answers).toEqual(['200 1', '200 2', '503 0']);
    expect(await answer(loopback)).toBe(mode === 'nftables' ? undefined : '503 0');
    renderVip(node, mode, ['10.244.1.5']);
    await until('it answers 200 again', async () => (await answer()) === '200 1');
    expect(await node.sluiced('drain')).toMatchObject({ exitCode: 0 });
    expect(await answer(), 'drained').toBe('503 1');
    expect(await node.sluiced('undrain')).toMatchObject({ exitCode: 0 });
    expect(await answer(), 'not drained').toBe('200 1');
  });

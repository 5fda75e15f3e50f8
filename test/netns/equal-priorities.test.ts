// @module-tag test
import { afterEach, beforeEach, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode } from './sluiced-node.ts';

/**
 * Whose translation a packet meets where two programs have one, in both orders of loading. Nat of iptables always has priority -100, as that of
 * kube-proxy's mode nftables, and of equal priorities the kernel asks the one that was loaded last: so Sluice in mode iptables cannot go in front
 * of a kube-proxy in the other store or in mode nftables, and its table of mode nftables, with -101, can.
 */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach((context) => needBackend(context, 'legacy'));
beforeEach(async () => {
  node = await SluicedNode.make();
  await node.tool(['ip', 'route', 'add', '10.96.0.0/12', 'dev', 'lo']);
});
afterEach(() => node.remove());

const rule = (port: number): readonly string[] =>
  `-t nat -A OUTPUT -d 10.96.0.1/32 -p udp --dport 53 -j DNAT --to-destination 127.0.0.1:${port}`.split(' ');
const table = (name: string, priority: number, port: number): string =>
  `table ip ${name} { chain output { type nat hook output priority ${priority}; ip daddr 10.96.0.1 udp dport 53 dnat to 127.0.0.1:${port}; }; }`;

/** Each loads a translation of the same packets to a port of its own. */
const programs = {
  'iptables-legacy': { port: 1001, load: () => node.tool(['iptables-legacy', ...rule(1001)]) },
  'iptables-nft': { port: 1002, load: () => node.tool(['iptables-nft', ...rule(1002)]) },
  'nftables at -100': { port: 1003, load: () => node.tool(['nft', table('other', -100, 1003)]) },
  'nftables at -101': { port: 1004, load: () => node.tool(['nft', table('ours', -101, 1004)]) },
} as const;
type Program = keyof typeof programs;

/** @returns the program that translated a packet, after some were loaded one after the other */
async function asked(...order: readonly Program[]): Promise<Program | undefined> {
  for (const name of order) await programs[name].load();
  await node.tool(['bash', '-c', 'echo > /dev/udp/10.96.0.1/53']);
  const tracked = await node.tool(['conntrack', '-L', '-p', 'udp']);
  return order.find((name) => tracked.includes(`sport=${programs[name].port} `));
}

const equals: readonly (readonly [Program, Program])[] = [
  ['iptables-legacy', 'iptables-nft'],
  ['iptables-nft', 'iptables-legacy'],
  ['iptables-legacy', 'nftables at -100'],
  ['nftables at -100', 'iptables-legacy'],
  ['iptables-nft', 'nftables at -100'],
  ['nftables at -100', 'iptables-nft'],
];
test.each(equals)('after %s and then %s, the last one is asked', async (first, last) => {
  expect(await asked(first, last)).toBe(last);
});

test.each(['iptables-legacy', 'iptables-nft', 'nftables at -100'] as const)(
  'nftables at -101 is asked before %s, whichever was loaded first',
  async (other) => {
    expect(await asked('nftables at -101', other)).toBe('nftables at -101');
    await node.remove();
    node = await SluicedNode.make();
    await node.tool(['ip', 'route', 'add', '10.96.0.0/12', 'dev', 'lo']);
    expect(await asked(other, 'nftables at -101')).toBe('nftables at -101');
  },
);

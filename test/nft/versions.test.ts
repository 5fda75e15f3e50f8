// @module-tag all
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { addPods, Clients } from '../netns/clients.ts';
import { needKernel } from '../netns/privileges.ts';
import { SluicedNode, until } from '../netns/sluiced-node.ts';
import { inPlace, nftOf } from './newer.ts';

/** Two versions of nft on one node: nft 1.0.6 crashes at a set that nft 1.1.3 made, in whatever table, and cannot write then. */

const newer = nftOf('newer');
let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  if ('lack' in newer) return context.skip(newer.lack);
  const made = await SluicedNode.make();
  context.onTestFinished(() => made.remove());
  made.writeConfig('nft');
  node = made;
});

function put(...web: readonly number[]): void {
  const services = { 'shop/web': web, 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: 'nftables' }));
}

/** As a program in a container whose nft is newer. */
const writeNewer = (text: string): Promise<string> => node.tool(['sh', '-c', `${inPlace(newer)} nft -f -`], text);
const foreignSet = 'table inet other {\n  set some { type ipv4_addr; elements = { 192.0.2.1 } }\n}\n';

async function alarms(): Promise<Readonly<Record<string, string>>> {
  const answer = JSON.parse((await node.get()) ?? '{}') as { readonly alarms?: Record<string, string> };
  return answer.alarms ?? { NONE: 'the daemon does not answer' };
}

const waysOut: readonly (readonly [string, (daemon: number) => Promise<unknown>])[] = [
  ['the foreign table is gone', () => writeNewer('delete table inet other\n')],
  [
    'a newer nft is installed',
    (daemon) => execa('nsenter', ['-t', String(daemon), '-m', 'sh', '-c', `${inPlace(newer)} true`]),
  ],
];

test.for(waysOut)(
  'a newer nft writes while sluiced runs: an alarm, the rules stay and serve, and changes go in once %s',
  { timeout: 400_000 },
  async ([, leave]) => {
    await addPods(node);
    put(1, 2);
    expect((await node.apply()).exitCode).toBe(0);
    const daemon = node.start();
    await until('the daemon runs', async () => (await node.get()) !== undefined);
    const clients = await Clients.start(node);
    const before = await node.frontends();
    await writeNewer(foreignSet);
    await expect(node.tool(['nft', 'list', 'ruleset'])).rejects.toThrow('SIGSEGV');
    put(2);
    // It is checked each minute.
    const alarm = await until('an alarm', async () => (await alarms())['NFT_CANNOT_WRITE'], 120_000);
    expect(alarm).toBe(
      '/usr/sbin/nft crashed (the tool was killed by SIGSEGV): a newer nft writes in this network namespace; install an nft of at least that version. Install an nft that is at least as new as the newest that writes here, also in containers',
    );
    expect(await node.frontends()).toBe(before);
    await leave(daemon.pid as number);
    await until('the alarm is cleared', async () => Object.keys(await alarms()).length === 0, 120_000);
    await until('the new bundle is applied', async () => (await node.frontends()) !== before, 60_000);
    expect(await node.frontends()).toContain('10.96.0.11 . 6 . 80: 10.244.0.3 . 8080\n');
    expect(clients.lost()).toEqual([]);
    expect(clients.served()).toBeGreaterThan(100);
  },
);

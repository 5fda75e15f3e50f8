// @module-tag test
import { afterEach, beforeEach, expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { until } from '../netns/sluiced-node.ts';
import { OwnedNode, ownersOf } from './owned-node.ts';

/** An nft that does not know the flags of an owned table: one process takes all changes, and the table is open. */

let node: OwnedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await OwnedNode.make('/usr/sbin/nft');
});
afterEach(() => node?.remove());

const serves = (endpoint: string): Promise<boolean> => node.real.frontends().then((text) => text.includes(endpoint));

test('one process takes all changes, another one after it ended, and foreign changes are repaired', {
  timeout: 120_000,
}, async (context) => {
  node.put(1, 2);
  const daemon = node.real.start();
  await until('the first endpoints serve', () => serves('10.244.0.3 . 8080'));
  await until('the kind of protection is known', async () => (await node.protection()) !== undefined);
  if ((await node.protection()) === 'owned') return context.skip('the nft of this machine knows the flags');
  await until('a process takes changes', async () => ownersOf(daemon.pid).length === 1);
  const [first = 0] = ownersOf(daemon.pid);
  for (const last of [4, 5, 6]) {
    node.put(1, last);
    await until(`endpoint ${last} serves`, () => serves(`10.244.0.${last + 1} . 8080`));
  }
  expect(ownersOf(daemon.pid)).toEqual([first]);
  process.kill(first, 'SIGKILL');
  node.put(1, 7);
  await until('the endpoint after its end serves', () => serves('10.244.0.8 . 8080'), 30_000);
  await until('another process takes changes', async () => ownersOf(daemon.pid).some((pid) => pid !== first), 30_000);
  expect(await node.foreign('flush', 'ruleset')).toBe('');
  await until('the table is repaired', () => serves('10.244.0.8 . 8080'), 30_000);
  node.put(1, 8);
  await until('the endpoint after the repair serves', () => serves('10.244.0.9 . 8080'), 30_000);
});

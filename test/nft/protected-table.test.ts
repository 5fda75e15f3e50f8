// @module-tag test
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { until } from '../netns/sluiced-node.ts';
import { newerNft } from './newer.ts';
import { OwnedNode } from './owned-node.ts';

/** The commands of the emergency page, in their order, on a node with the real daemon. */

const page = readFileSync(join(import.meta.dirname, '../../docs/protected-table.md'), 'utf8');
const commands = [...page.matchAll(/^ *```sh\n([^`]*?)\n *```$/gm)].map(([, text = '']) => text.trim());
const flagsOf = 'nft list table inet sluice | head -n 2';

test('the page has these commands', () => {
  // Another one needs its place in the test below.
  expect(commands).toEqual([
    'systemctl stop sluiced',
    flagsOf,
    'nft delete element inet sluice svc4 { 10.96.0.11 . tcp . 80 }',
    'nft delete table inet sluice',
    'systemctl start sluiced',
    "pgrep -af 'nft -i'",
  ]);
});

test('each does what the page says', { timeout: 120_000 }, async (context) => {
  needKernel(context);
  const newer = newerNft();
  if ('lack' in newer) return context.skip(newer.lack);
  const node = await OwnedNode.make(newer.path);
  try {
    const [stop, flags = '', one = '', all = '', start, owners = ''] = commands;
    const shell = (command: string): Promise<string> => node.real.tool(['sh', '-ec', command]);
    const daemon = await node.start(1, 2);
    const good = await node.real.frontends();
    expect(await shell(flags)).toContain('flags owner,persist');
    await expect(shell(all)).rejects.toThrow('Operation not permitted');
    expect(await shell(owners)).toContain('nft -i');
    expect(stop).toBe('systemctl stop sluiced');
    expect(await node.real.kill(daemon, 'SIGTERM')).toBe(0);
    expect(await node.real.frontends()).toBe(good);
    expect(await shell(flags)).toContain('flags persist');
    await shell(one);
    expect(await node.real.frontends()).not.toContain('10.96.0.11 . 6 . 80: ');
    expect(await node.real.frontends()).toContain('10.96.0.12 . 6 . 80: ');
    await shell(all);
    expect(await node.real.tool(['nft', 'list', 'tables'])).toBe('');
    expect(start).toBe('systemctl start sluiced');
    node.real.start();
    await until('the change is gone', async () => (await node.real.frontends()) === good, 30_000);
    await node.owned();
  } finally {
    await node.remove();
  }
});

// @module-tag test
import { rmSync } from 'node:fs';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { nftBundle, nftServices } from '../../packages/bundle/src/virtual/nft.fixture.ts';
import { needKernel } from '../netns/privileges.ts';
import { SluicedNode } from '../netns/sluiced-node.ts';

/** `sluice show --tool nft` prints what `nft -f -` takes, and the kernel then holds what `sluiced` loads; also for a release. */

beforeEach(needKernel);

const show = async (...args: readonly string[]): Promise<string> =>
  (await execa(process.execPath, [programPath('sluice'), 'show', ...args, '--node', 'node-a', '--tool', 'nft'])).stdout;
const listOf = (node: SluicedNode): Promise<string> => node.tool(['nft', '-n', 'list', 'table', 'inet', 'sluice']);

test('the printed table of an empty node equals the one that sluiced loads', async ({ onTestFinished }) => {
  const [byHand, bySluiced] = await Promise.all([SluicedNode.make(), SluicedNode.make()]);
  for (const node of [byHand, bySluiced]) onTestFinished(() => node.remove());
  const rendered = `${bySluiced.directory}/rendered`;
  writeBundle(rendered, nftBundle());
  bySluiced.writeConfig('nft');
  expect(await bySluiced.apply()).toMatchObject({ exitCode: 0, stderr: '' });
  await byHand.tool(['nft', '-f', '-'], await show(rendered));
  expect(await listOf(byHand)).toBe(await listOf(bySluiced));
  expect(await listOf(byHand)).toContain('chain s2t600');
});

const added = [
  'add element inet sluice cluster4 { 10.96.0.11 }\n',
  'add element inet sluice svc4 { 10.96.0.11 . tcp . 80 : goto n${count} }\n',
  'add element inet sluice tcp4 { 10.96.0.11 . 80 . ${slot} : 10.244.1.5 . 8080 }\n',
].join('');

test('the printed transactions of a release take the table from one bundle to the other, as sluiced does', async ({
  onTestFinished,
}) => {
  const [byHand, bySluiced] = await Promise.all([SluicedNode.make(), SluicedNode.make()]);
  for (const node of [byHand, bySluiced]) onTestFinished(() => node.remove());
  const [before, rendered] = [`${byHand.directory}/before`, `${bySluiced.directory}/rendered`];
  writeBundle(before, nftBundle());
  writeBundle(rendered, nftBundle());
  bySluiced.writeConfig('nft');
  expect(await bySluiced.apply()).toMatchObject({ exitCode: 0, stderr: '' });
  rmSync(rendered, { recursive: true });
  writeBundle(rendered, nftBundle({ ...nftServices, 'shop/empty': added }));
  expect(await bySluiced.apply()).toMatchObject({ exitCode: 0, stderr: '' });

  await byHand.tool(['nft', '-f', '-'], await show(before));
  const { parts } = JSON.parse(await show(rendered, '--from', before, '-o', 'json')) as {
    readonly parts: readonly { readonly phase: string; readonly text: string }[];
  };
  expect(parts.map(({ phase }) => phase)).toEqual(['stage', 'switch', 'commit', 'finish']);
  const met: string[] = [];
  for (const { text } of parts) {
    await byHand.tool(['nft', '-f', '-'], text);
    met.push(
      / 10\.96\.0\.11 \. 6 \. 80 : (goto \w+)/.exec(
        await byHand.tool(['nft', '-n', 'list', 'map', 'inet', 'sluice', 'svc4']),
      )?.[1] ?? '',
    );
  }
  expect(met).toEqual(['', '', 'goto n1b', 'goto n1b']);
  expect(await listOf(byHand)).toBe(await listOf(bySluiced));
  const text = await show(rendered, '--from', before);
  expect(text.match(/^# (?:\w+): .*$/gm)).toEqual([
    expect.stringMatching(/^# stage: \d+ frontends beside the active ones/),
    expect.stringMatching(/^# switch: /),
    '# commit: the release is the default',
    '# finish: removes what no verdict leads to, at least 50 ms later',
  ]);
});

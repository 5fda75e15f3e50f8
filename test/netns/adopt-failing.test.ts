// @module-tag all
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode } from './adopt-node.ts';
import type { ExecResult } from './cluster-host.ts';
import { addPods } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/** A move beside a second one, and on a disk that takes no write. */

let node: AdoptNode;
const at = (name: string): string => `${node.directory}/${name}`;

beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  node = await AdoptNode.start();
  await addPods(node);
  await node.startKubeProxy('nft');
  node.writeConfig('nft');
  const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
  writeBundle(at('rendered'), sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: 'nftables' }));
});
afterEach(() => node.close());

const everything = async (): Promise<string> => `${await node.rules('nft')}${(await node.tables()).join()}`;
const inFront = async (): Promise<boolean> => {
  const { stdout } = await node.sluiced('status', '-o', 'json');
  return /"goal": "sluice"/.test(stdout) && (await node.tables()).includes('table inet sluice');
};
const move = (...more: readonly string[]): readonly string[] => ['adopt', '--daemonset', '--without-parity', ...more];
const stopKubeProxy = async (): Promise<void> => {
  rmSync(node.manifest);
  await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
};

/** A disk for the state directory that is full until `free`. */
async function mountState(size: string): Promise<{ fill(): Promise<void>; free(): Promise<void> }> {
  mkdirSync(at('state'));
  await node.tool(['mount', '-t', 'tmpfs', '-o', `size=${size},mode=0700`, 'tmpfs', at('state')]);
  return {
    fill: async () => void (await node.run(['dd', 'if=/dev/zero', `of=${at('state/filler')}`, 'bs=4096'])),
    free: async () => void (await node.tool(['rm', at('state/filler')])),
  };
}

test('a second move, and an undo, are refused while one runs, and change nothing', { timeout: 180_000 }, async () => {
  const first = node.host.start(node.command(...move('--wait', '120')));
  await until('Sluice is in front', inFront);
  const before = await everything();
  const others: readonly ExecResult[] = await Promise.all(
    [move('--wait', '0'), ['adopt', '--undo', '--wait', '0']].map((args) => node.sluiced(...args)),
  );
  for (const refused of others)
    expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('held by another sluiced') });
  expect(await everything()).toBe(before);
  await stopKubeProxy();
  expect(await first.ended).toMatchObject({ exitCode: 0, output: expect.stringContaining('adopted: Sluice serves') });
  expect(await node.rules('nft')).not.toContain('KUBE-SVC-');
});

test('on a full disk a move touches nothing', { timeout: 180_000 }, async () => {
  const disk = await mountState('64k');
  await disk.fill();
  const before = await everything();
  expect(await node.sluiced(...move('--wait', '0'))).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('Free space'),
  });
  expect(await everything()).toBe(before);
  expect(await node.proxies()).toBe(1);
});

test('a disk without room for a comparison refuses the move', { timeout: 180_000 }, async () => {
  mkdirSync(at('tmp'));
  await node.tool(['mount', '-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', at('tmp')]);
  writeFileSync(at('compare'), '#!/bin/sh\n', { mode: 0o755 });
  node.writeConfig('nft', `parityProgram: ${at('compare')}\n`);
  const before = await everything();
  const adopt = node.command('adopt', '--daemonset', '--wait', '0');
  expect(await node.run(['env', `TMPDIR=${at('tmp')}`, ...adopt])).toMatchObject({
    exitCode: 3,
    stderr: expect.stringMatching(/nothing could be compared: .*no space left on device/),
  });
  expect(await everything()).toBe(before);
  expect((await node.tool(['ls', at('tmp')])).trim()).toBe('');
});

test('a disk that becomes full once Sluice is in front leaves rules that serve, and the move goes on later', {
  timeout: 180_000,
}, async () => {
  const disk = await mountState('8m');
  const first = node.host.start(node.command(...move('--wait', '120')));
  await until('Sluice is in front', inFront);
  await disk.fill();
  await stopKubeProxy();
  expect((await first.ended).exitCode).not.toBe(0);
  expect(await node.tables()).toContain('table inet sluice');
  expect(await node.rules('nft')).toContain('KUBE-SVC-');
  await disk.free();
  const again = await node.sluiced(...move('--wait', '10'));
  expect(again).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
  expect(await node.rules('nft')).not.toContain('KUBE-SVC-');
  writeFileSync(node.manifest, 'kind: Pod\n');
  expect(await node.sluiced('adopt', '--undo')).toMatchObject({ exitCode: 0 });
  expect(await node.tables()).not.toContain('table inet sluice');
});

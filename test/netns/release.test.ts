// @module-tag test
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, programPath } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, sampleNode, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** From `sluice release` and `sluice sign` to the kernel of a node, with both real programs. */

const sluice = programPath('sluice');
let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  needBackend(context, 'nft');
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** Where a bundle is rendered, and the release directory of the node. */
const places = () => ({ bundle: join(node.directory, 'bundle'), release: join(node.directory, 'rendered') });

const run = (...args: readonly string[]): string =>
  execFileSync(sluice, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** Makes a key in a file of this name. @returns its line for `allowed_signers` */
function keyOf(name: string, space: 'sluice-release' | 'sluice-endpoints'): string {
  return `${name} namespaces="${space}" ${makeKey(join(node.directory, name))}\n`;
}

/** Lets the node accept signatures of these keys, and no others. */
function trust(...lines: readonly string[]): void {
  const signers = join(node.directory, 'allowed_signers');
  writeFileSync(signers, lines.join(''), { mode: 0o644 });
  node.writeConfig('nft', `signatures: {allowedSigners: ${signers}}\n`);
}

test('a node applies signed releases, ignores unsigned ones, and reports what it accepted', {
  timeout: 120_000,
}, async () => {
  const { bundle, release } = places();
  const publish = (endpoints: readonly number[], by?: string): void => {
    writeBundle(bundle, sampleBundle({ services: { 'shop/web': endpoints } }));
    run('release', bundle, '--serial', 'auto', '--source', 'c'.repeat(40), '-o', release);
    if (by) run('sign', release, '--key', join(node.directory, by));
  };
  keyOf('mallory', 'sluice-release');
  trust(keyOf('alice', 'sluice-release'));

  publish([1, 2]);
  expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('RELEASE_UNSIGNED') });
  rmSync(release, { recursive: true });
  publish([1, 2], 'alice');
  expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
  const good = await node.rules('nft');
  expect(good).toContain('10.244.0.2:8080');

  publish([1, 3], 'mallory');
  expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('not in allowed_signers') });
  expect(await node.rules('nft')).toBe(good);
  const status = JSON.parse((await node.sluiced('status', '-o', 'json')).stdout) as object;
  expect(status).toMatchObject({
    node: sampleNode,
    signatures: 'required',
    release: { serial: 1, signers: ['alice'], cluster: 'test' },
  });
  expect((await node.sluiced('status')).stdout).toContain('serial 1, signed by alice');
});

test('a release that apply refuses for want of the lock is not accepted; the daemon with the lock applies it', {
  timeout: 120_000,
}, async () => {
  const { bundle, release } = places();
  trust(keyOf('alice', 'sluice-release'));
  const publish = (serial: number, to: string): void => {
    rmSync(bundle, { recursive: true, force: true });
    writeBundle(bundle, sampleBundle({ services: { 'shop/web': [serial] } }));
    run('release', bundle, '--serial', String(serial), '--source', 'c'.repeat(40), '-o', to);
    run('sign', to, '--key', join(node.directory, 'alice'));
  };
  const accepted = async (): Promise<number> => {
    const status = JSON.parse((await node.sluiced('status', '-o', 'json')).stdout) as { release?: { serial?: number } };
    return status.release?.serial ?? 0;
  };
  publish(5, release);
  const daemon = node.start();
  await until('release 5 is accepted', async () => (await accepted()) === 5);
  const newer = join(node.directory, 'newer');
  publish(6, newer);
  expect(await node.sluiced('apply', newer)).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('NODE_LOCKED'),
  });
  expect(await accepted()).toBe(5);
  daemon.kill('SIGTERM');
  await new Promise((resolve) => daemon.once('exit', resolve));
  expect(await node.sluiced('apply', newer)).toMatchObject({ exitCode: 0 });
  expect(await accepted()).toBe(6);
});

/** Pods of this node have addresses up to 10.244.0.15. */
const onNode = (files: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
  new Map(
    [...files].map(([path, text]) => [
      path,
      path.endsWith('/node.yaml') ? text.replace('values: {}', 'values: {ipv4: {podCIDR: 10.244.0.0/28}}') : text,
    ]),
  );

test('a key for endpoints changes endpoints within their networks and nothing else', { timeout: 120_000 }, async () => {
  const { bundle, release } = places();
  trust(keyOf('alice', 'sluice-release'), keyOf('ends', 'sluice-endpoints'));
  const publish = (services: Readonly<Record<string, readonly number[]>>, by: 'alice' | 'ends'): void => {
    rmSync(bundle, { recursive: true, force: true });
    writeBundle(bundle, onNode(sampleBundle({ services })));
    const [order, role] = by === 'ends' ? [['--endpoints'], ['--endpoints']] : [['--serial', 'auto'], []];
    run('release', bundle, ...order, '--source', 'c'.repeat(40), '-o', release);
    run('sign', release, '--key', join(node.directory, by), ...role);
  };

  publish({ 'shop/web': [1, 2] }, 'alice');
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  publish({ 'shop/web': [1, 3] }, 'ends');
  expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('generation 1') });
  const good = await node.rules('nft');
  expect(good).toContain('10.244.0.4:8080');
  publish({ 'shop/web': [1, 99] }, 'ends');
  expect(await node.apply()).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('10.244.0.100:8080 of shop/web'),
  });
  publish({ 'shop/web': [1, 3], 'shop/more': [5] }, 'ends');
  expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('RELEASE_ENDPOINTS_ONLY') });
  expect(await node.rules('nft')).toBe(good);
  expect((await node.sluiced('status')).stdout).toContain('serial 1, revision 3, signed by ends for endpoints only');
  publish({ 'shop/web': [1, 3], 'shop/more': [5] }, 'alice');
  expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('generation 2') });
});

// @module-tag all
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { until } from '../netns/sluiced-node.ts';
import { newerNft } from './newer.ts';
import { OwnedNode, ownersOf, residentBytes } from './owned-node.ts';

/** The process that owns the table hangs, crashes, grows or outlives its daemon; and commands beside it and after it. */

const newer = newerNft();

let node: OwnedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  if ('lack' in newer) return context.skip(newer.lack);
  node = await OwnedNode.make(newer.path);
});
afterEach(() => node?.remove());

/** Many endpoints of many Services: their transaction takes some 100 ms. */
const many = (endpoints: readonly number[], services = 60): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(Array.from({ length: services }, (_, at) => [`shop/s${at}`, endpoints]));
const upTo = (count: number, first = 1): readonly number[] => Array.from({ length: count }, (_, at) => first + at);

const serves = (endpoint: string): Promise<boolean> => node.real.frontends().then((text) => text.includes(endpoint));
const tables = (): Promise<string> => node.real.tool(['nft', 'list', 'tables']);

test('an owner that hangs is replaced, and the change gets in', { timeout: 120_000 }, async () => {
  const daemon = await node.start(1, 2);
  const [owner = 0] = ownersOf(daemon.pid);
  process.kill(owner, 'SIGSTOP');
  node.put(1, 2, 6);
  await until('the endpoint serves', () => serves('10.244.0.7 . 8080'), 60_000);
  await node.owned(60_000);
  expect(ownersOf(daemon.pid)).not.toContain(owner);
  expect(await node.foreign('delete', 'table', 'inet', 'sluice')).toContain('not permitted');
});

test('an owner that is killed amid transactions leaves one of two whole states, and the release gets in', {
  timeout: 300_000,
}, async () => {
  node.putServices(many([1, 2]));
  const daemon = node.real.start();
  await node.owned();
  const kills = atTier({ quick: 4, all: 20 });
  for (let round = 1; round <= kills; round++) {
    node.putServices(many(upTo(100, 100 + (round % 2))));
    await sleep(900 + ((round * 137) % 700));
    for (const owner of ownersOf(daemon.pid)) process.kill(owner, 'SIGKILL');
  }
  node.putServices(many([7, 8]));
  await until('the last endpoints serve', () => serves('10.244.0.8 . 8080, 10.244.0.9 . 8080'), 60_000);
  await node.owned(60_000);
  expect(await node.real.sluiced('show', 'shop/s5')).toMatchObject({ exitCode: 0 });
  expect(await node.foreign('flush', 'ruleset')).toBe('');
  expect(await serves('10.244.0.8 . 8080, 10.244.0.9 . 8080')).toBe(true);
});

test('the memory of the owner is bounded: after a large transaction another one owns the table', {
  timeout: 120_000,
}, async () => {
  const daemon = await node.start(1, 2);
  const [before = 0] = ownersOf(daemon.pid);
  node.putServices({ 'shop/web': [1, 2], ...many(upTo(240), 120) });
  await until('the release serves', () => serves('10.96.0.20 . 6 . 80: '), 60_000);
  await node.owned();
  const owners = ownersOf(daemon.pid);
  expect(owners).toHaveLength(1);
  expect(owners).not.toContain(before);
  expect(residentBytes(owners[0] ?? 0)).toBeLessThan(64 * 1024 * 1024);
});

test('a boot leaves a table that the daemon owns', async () => {
  node.put(1, 2);
  expect(await node.real.apply()).toMatchObject({ exitCode: 0 });
  const before = await node.real.frontends();
  await node.real.tool(['nft', 'delete', 'table', 'inet', 'sluice']);
  expect(await node.real.sluiced('boot')).toMatchObject({ exitCode: 0 });
  expect(await node.flags()).toBe('flags persist');
  expect(await node.real.frontends()).toBe(before);
  node.real.start();
  await node.owned();
  expect(await node.flags()).toBe('flags owner,persist');
  expect(await node.real.frontends()).toBe(before);
});

test('an owner that was stopped ends with its daemon, which was killed', async () => {
  const daemon = await node.start(1, 2);
  const [owner = 0] = ownersOf(daemon.pid);
  process.kill(owner, 'SIGSTOP');
  await node.real.kill(daemon);
  expect(await node.real.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  expect(await tables()).toBe('');
});

describe('a foreign process that owns the table', () => {
  test('is named where a command cannot change the table, which works when it has ended', async () => {
    node.put(1, 2);
    expect(await node.real.apply()).toMatchObject({ exitCode: 0 });
    const foreign = node.real.startProgram(['sh', '-c', own(`${node.real.directory}/own`)]);
    await until('it owns the table', async () => (await node.flags()) === 'flags owner,persist');
    const refused = await node.real.sluiced('cleanup');
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toContain('another process owns the table');
    expect(await serves('10.244.0.3 . 8080')).toBe(true);
    await node.real.kill(foreign);
    expect(await node.real.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    expect(await tables()).toBe('');
  });

  test('the daemon owns the table once that has ended', { timeout: 60_000 }, async () => {
    node.put(1, 2);
    expect(await node.real.apply()).toMatchObject({ exitCode: 0 });
    const foreign = node.real.startProgram(['sh', '-c', own(`${node.real.directory}/own`)]);
    await until('it owns the table', async () => (await node.flags()) === 'flags owner,persist');
    node.real.start();
    await until('the daemon says so', async () => (await node.real.get())?.includes('another process owns the table'));
    await node.real.kill(foreign);
    await node.owned(30_000);
  });
});

/** Owns the table until it is killed. */
const own = (pipe: string): string =>
  `rm -f ${pipe}; mkfifo ${pipe}; (echo 'add table inet sluice { flags owner,persist; }' >${pipe} &); exec nft -i <>${pipe}`;

test('commands beside a daemon are refused and change nothing; a rollback goes through it', {
  timeout: 120_000,
}, async () => {
  await node.start(1, 2);
  const first = await node.real.frontends();
  node.put(11, 12);
  await until('the release serves', () => serves('10.244.0.12 . 8080'));
  const second = await node.real.frontends();
  for (const command of [['apply', `${node.real.directory}/rendered`], ['cleanup'], ['recover'], ['boot']]) {
    const { exitCode, stderr } = await node.real.sluiced(...command);
    expect([command[0], exitCode === 0, stderr]).toEqual([
      command[0],
      false,
      expect.stringContaining('another sluiced'),
    ]);
  }
  expect(await node.real.frontends()).toBe(second);
  expect(await node.real.sluiced('rollback', '1', '--yes', '--endpoints', 'old')).toMatchObject({ exitCode: 0 });
  expect(await node.real.frontends()).toBe(first);
  expect(await node.protection()).toBe('owned');
});

test('a node that lost its state is recovered, and the table is owned again', { timeout: 60_000 }, async () => {
  const daemon = await node.start(1, 2);
  const before = await node.real.frontends();
  await node.real.kill(daemon);
  rmSync(`${node.real.directory}/state`, { recursive: true });
  expect(await node.real.sluiced('recover')).toMatchObject({ exitCode: 0 });
  expect(await node.real.frontends()).toBe(before);
  node.real.start();
  await node.owned();
  expect(await node.real.frontends()).toBe(before);
});

describe('an owned table goes', () => {
  test('by a stop and `sluiced cleanup`', async () => {
    const daemon = await node.start(1, 2);
    expect(await node.real.kill(daemon, 'SIGTERM')).toBe(0);
    expect(await serves('10.244.0.3 . 8080')).toBe(true);
    expect(await node.real.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    expect(await tables()).toBe('');
  });

  test('by a change of mode, and comes back owned', { timeout: 120_000 }, async (context) => {
    needBackend(context, 'nft');
    await node.start(1, 2);
    const before = await node.real.frontends();
    node.putServices({ 'shop/web': [1, 2] }, 'iptables');
    await until('the mode is iptables', async () => !(await tables()).includes('inet sluice'), 30_000);
    await until('rules serve', async () => (await node.real.rules('nft')).includes('10.244.0.3:8080'), 30_000);
    node.put(1, 2);
    await node.owned(30_000);
    expect(await node.real.frontends()).toBe(before);
    expect(await node.real.rules('nft')).not.toContain('SLU-SVC');
  });
});

// @module-tag test
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { listChain, printNftTable, readListName } from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from '../netns/node-of-test.ts';
import { needBackend } from '../netns/privileges.ts';
import { until, webIn } from '../netns/sluiced-node.ts';

/** The real program and the real kernel in mode nftables: a node from its first bundle to its last. */

withNode();

const put = (...endpoints: readonly number[]): void => putIn('nftables', ...endpoints);

/** Files of another mode go. */
function putIn(mode: 'iptables' | 'nftables', ...endpoints: readonly number[]): void {
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, webIn(mode, ...endpoints));
}

/** Applies a bundle. @returns what packets meet then */
async function apply(...endpoints: readonly number[]): Promise<string> {
  put(...endpoints);
  const { exitCode, stderr } = await node.apply();
  expect([exitCode, stderr]).toEqual([0, '']);
  return node.frontends();
}

const nft = (command: string): Promise<string> => node.tool(['nft', '-n', command]);

/** Starts the daemon, and waits until it has compared the kernel for the first time. */
async function start(): Promise<void> {
  node.start();
  await until('the daemon runs', async () => (await node.get()) !== undefined);
}

test('needs neither iptables nor ipset', async () => {
  mkdirSync(`${node.directory}/none`);
  for (const tool of ['iptables', 'ip6tables', 'ipset', 'ipvsadm'])
    for (const name of [tool, `${tool}-nft`, `${tool}-legacy`, `${tool}-save`, `${tool}-restore`])
      writeFileSync(`${node.directory}/none/${name}`, '', { mode: 0o644 });
  for (const name of ['xtables-nft-multi', 'xtables-legacy-multi'])
    writeFileSync(`${node.directory}/none/${name}`, '', { mode: 0o644 });
  const without = `mount -t overlay overlay -o lowerdir=${node.directory}/none:/usr/sbin /usr/sbin &&`;
  node.writeConfig('auto');
  put(1, 2);
  const { exitCode, stderr, stdout } = await node.sluicedAfter(without, 'apply', `${node.directory}/rendered`);
  expect([exitCode, stderr, stdout]).toEqual([0, '', expect.any(String)]);
  expect(await node.frontends()).toContain('10.244.0.2 . 8080, 10.244.0.3 . 8080');
});

test('a release, an endpoint, a rollback and the removal of everything', async () => {
  node.writeConfig('nft');
  const first = await apply(1, 2);
  expect(first).toContain('10.96.0.11 . 6 . 80: 10.244.0.2 . 8080, 10.244.0.3 . 8080');
  const second = await apply(1, 2, 3);
  expect(second).toContain('10.244.0.2 . 8080, 10.244.0.3 . 8080, 10.244.0.4 . 8080');
  const third = await apply(11, 12);
  expect(third).toContain('10.96.0.11 . 6 . 80: 10.244.0.12 . 8080, 10.244.0.13 . 8080');
  expect(await node.sluiced('rollback', '1', '--yes', '--endpoints', 'old')).toMatchObject({ exitCode: 0 });
  expect(await node.frontends()).toBe(second);
  expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  expect(await nft('list tables')).toBe('');
});

test('the same bundle again changes nothing', async () => {
  node.writeConfig('nft');
  await apply(1, 2);
  const before = await nft('list table inet sluice');
  const { stdout } = await node.apply();
  expect(stdout).toContain('same: ');
  expect(await nft('list table inet sluice')).toBe(before);
});

test('shows a Service in the kernel beside the generation', async () => {
  node.writeConfig('nft');
  await apply(1, 2);
  const good = await node.sluiced('show', 'shop/web');
  expect([good.exitCode, good.stderr]).toEqual([0, '']);
  expect(good.stdout).toContain('mode nftables');
  expect(good.stdout).toContain('  10.96.0.11 . tcp . 80 endpoint 10.244.0.2 . 8080\n');
  expect(good.stdout).toContain('The kernel matches generation 1.');
  await nft('delete element inet sluice tcp4 { 10.96.0.11 . 80 . 1 }');
  const other = await node.sluiced('show', 'shop/web');
  expect(other.exitCode).toBe(1);
  expect(other.stdout).toContain('- 10.96.0.11 . tcp . 80 endpoint 10.244.0.3 . 8080\n');
});

/** The chains of lists, and the elements, of a listed table: the commands that add them to an empty one. */
function contentOf(listing: string): string {
  const chains = [...listing.matchAll(/^\tchain (\S+) \{$/gm)].flatMap(([, name = '']) =>
    readListName(name) ? listChain(name) : [],
  );
  const elements = [
    ...listing.matchAll(/^\t(?:set|map) (\S+) \{\n(?:(?!\t\}\n).*\n)*?\t\telements = (\{[^}]*\})/gm),
  ].map(([, name, own]) => `add element inet sluice ${name} ${own}`);
  expect([chains.length, elements.length].every((count) => count > 0)).toBe(true);
  return [...chains, ...elements].map((command) => `${command}\n`).join('');
}

test('a bundle and a table of an older edition are taken, and changed like others', async () => {
  node.writeConfig('nft');
  const options = { detector: 'address', masqueradeAll: false } as const;
  const old = new Map(webIn('nftables', 1, 2));
  old.set('profiles/default/base/first.nft', printNftTable(options, 1));
  const applyOld = async (): Promise<string> => {
    writeBundle(`${node.directory}/rendered`, old);
    const { exitCode, stderr, stdout } = await node.apply();
    expect([exitCode, stderr]).toEqual([0, '']);
    return stdout;
  };
  await applyOld();
  const older = printNftTable(options, 1) + contentOf(await nft('list table inet sluice'));
  await node.tool(['nft', '-f', '-'], `delete table inet sluice\n${older}`);
  expect(await applyOld()).toContain('same: ');
  expect(await apply(1, 2)).toContain('10.244.0.2 . 8080, 10.244.0.3 . 8080');
  expect(await apply(1, 2, 3)).toContain('10.244.0.3 . 8080, 10.244.0.4 . 8080');
  expect(await nft('list table inet sluice')).not.toContain('ct protocol');
  await nft('flush chain inet sluice ranges6');
  await apply(1, 2);
  expect((await nft('list table inet sluice')).match(/ct protocol/g)).toHaveLength(4);
});

/** Three on a node: a node whose rules change more often repairs them more slowly. */
describe.each([
  [
    ['a flush of everything', 'flush ruleset'],
    ['a deleted verdict', 'delete element inet sluice svc4 { 10.96.0.11 . 6 . 80 }'],
    ['a rule before others', 'insert rule inet sluice services4 accept'],
  ],
  [
    ['a deleted table', 'delete table inet sluice'],
    ['a foreign frontend', 'add element inet sluice svc4 { 10.96.7.7 . 6 . 80 : goto n2 }'],
    ['a changed list', 'flush chain inet sluice n2'],
  ],
  [
    ['a deleted endpoint', 'delete element inet sluice tcp6 { fd00:96::a . 80 . 0 }'],
    ['a flushed chain', 'flush chain inet sluice services4'],
    ['a switch that another program turned on', 'add element inet sluice trial4 { 0.0.0.0/0 }'],
  ],
] as const)('foreign changes', (...changes) => {
  test(`${changes.map(([title]) => title).join(', ')}: each is repaired within seconds`, async () => {
    node.writeConfig('nft');
    const config = `${node.directory}/sluiced.yaml`;
    writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1', 'scanIntervalSeconds: 3600'));
    const good = await apply(1, 2);
    const rules = await nft('list chain inet sluice services4');
    await start();
    await sleep(3_000);
    for (const [title, command] of changes) {
      await nft(command);
      await until(
        `${title} is repaired`,
        async () =>
          (await node.frontends()) === good &&
          (await nft('list chain inet sluice services4')) === rules &&
          (await nft('list chain inet sluice n2')).includes('numgen'),
        30_000,
      );
      expect(await nft('list set inet sluice trial4'), `after ${title}`).not.toContain('elements');
    }
  });
});

describe('after a boot', () => {
  const forget = (): Promise<string> => nft('delete table inet sluice');

  test('restores the confirmed state; with a damaged generation, that of the previous one', async () => {
    node.writeConfig('nft');
    const first = await apply(1, 101);
    const second = await apply(2, 102);
    await forget();
    expect((await node.sluiced('boot')).exitCode).toBe(0);
    expect(await node.frontends()).toBe(second);
    await forget();
    for (const one of ['store', 'copies'])
      writeFileSync(`${node.directory}/state/${one}/${node.journal()?.current?.manifest}`, 'damaged');
    expect((await node.sluiced('boot')).exitCode).toBe(4);
    expect(await node.frontends()).toBe(first);
  });

  test('nothing of a release on probation is restored', { timeout: 60_000 }, async () => {
    node.writeConfig('nft');
    const good = await apply(1, 101);
    node.writeConfig('nft', 'probation: {seconds: 600}\nprobes: [{name: good, exec: [/bin/true]}]\n');
    put(2, 102);
    const daemon = node.start();
    await until('the release is on probation', async () => (await node.frontends()).includes('on probation'), 30_000);
    await node.kill(daemon);
    expect((await node.sluiced('boot')).exitCode).toBe(0);
    expect(await node.frontends()).toBe(good);
  });
});

describe('a change of mode', () => {
  beforeEach((context) => needBackend(context, 'nft'));

  test('from iptables to nftables, back, and back by a failing probe', { timeout: 240_000 }, async () => {
    node.writeConfig('nft', 'layout: tree\n');
    putIn('iptables', 1, 2);
    expect((await node.apply()).exitCode).toBe(0);
    const iptables = await node.rules('nft');
    expect(iptables).toContain('SLU-SVC');
    const table = await apply(1, 2);
    expect(table).toContain('10.96.0.11 . 6 . 80: 10.244.0.2 . 8080, 10.244.0.3 . 8080');
    expect(await node.rules('nft')).not.toContain('SLU-SVC');
    putIn('iptables', 1, 2);
    expect((await node.apply()).exitCode).toBe(0);
    expect(await node.rules('nft')).toBe(iptables);
    expect(await node.frontends()).toBe('');
    const bad = '! nft list table inet sluice';
    node.writeConfig('nft', `layout: tree\nprobes: [{name: bad, exec: [/bin/sh, -c, "${bad}"], attempts: 1}]\n`);
    put(1, 2);
    expect((await node.apply()).exitCode).not.toBe(0);
    expect(await node.rules('nft')).toBe(iptables);
    expect(await nft('list tables')).not.toContain('inet sluice');
  });
});

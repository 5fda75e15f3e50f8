// @module-tag test
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import type { RuleStore } from '../../packages/applier/src/kernel/tools.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { programPath } from '@sluice/testing';
import { type DataPlane, modesOnNft, plainPlanes, SluicedNode, stores, until } from './sluiced-node.ts';

/** The real program on the real kernel, when a tool, the rollback or the disk fails, and when no event announces a new bundle. */

let node: SluicedNode;
let directory: string;

beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  ({ directory } = node);
});
afterEach(() => node.remove());

const dualIn = (mode: DataPlane['mode'], ...endpoints: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': endpoints }, families: ['ipv4', 'ipv6'], mode });

/**
 * Makes restore tools end with 1 on the node, but not in scratch namespaces, which lack the chain that marks the node.
 * @param broken by tool, such as `ip6tables`, a shell condition
 * @returns shell text that mounts the tools over those of the system
 */
async function breakTools(backend: RuleStore, broken: Readonly<Record<string, string>>): Promise<string> {
  mkdirSync(`${directory}/tools`);
  for (const [name, when] of Object.entries(broken)) {
    await node.tool([`${name}-${backend}`, '-t', 'nat', '-N', 'SLT-NODE']);
    const restore = `${name}-${backend}-restore`;
    const isNode = `${name}-${backend} -w 5 -t nat -S SLT-NODE >/dev/null 2>&1`;
    // In the words of the tool: a refusal by the kernel.
    const fail = `cat >/dev/null; echo '${restore}: line 1 failed: broken on purpose' >&2; exit 1`;
    const script = `if ${isNode} && ${when}; then ${fail}; fi\nexec xtables-${backend}-multi ${restore} "$@"\n`;
    writeFileSync(`${directory}/tools/${restore}`, `#!/bin/sh\n${script}`, { mode: 0o755 });
  }
  return `mount -t overlay overlay -o lowerdir=${directory}/tools:/usr/sbin /usr/sbin &&`;
}

/** The same for nft, and no `nft -i` runs: what that takes is not seen here. @param when a shell condition, which finds the text in `$text` */
async function breakNft(when: string): Promise<string> {
  const tools = `${directory}/tools`;
  mkdirSync(tools);
  copyFileSync('/usr/sbin/nft', `${tools}/nft-real`);
  await node.tool(['iptables-nft', '-t', 'nat', '-N', 'SLT-NODE']);
  const isNode = 'iptables-nft -w 5 -t nat -S SLT-NODE >/dev/null 2>&1';
  const script = [
    '[ "$*" != -i ] || exit 1',
    '[ "$*" = "-f -" ] || exec nft-real "$@"',
    `text=$(mktemp ${directory}/text.XXXXXX)`,
    'cat >$text',
    `if ${isNode} && { ${when}; }; then echo 'Error: Could not process rule: broken on purpose' >&2; exit 1; fi`,
    'exec nft-real "$@" <$text',
  ];
  writeFileSync(`${tools}/nft`, `#!/bin/sh\n${script.join('\n')}\n`, { mode: 0o755 });
  return `mount -t overlay overlay -o lowerdir=${tools}:/usr/sbin /usr/sbin &&`;
}

/**
 * Tools that break in the middle of a change, and stay so while a file exists.
 * @param mended a file that prevents that
 */
const breakHalfWay = async (mode: DataPlane['mode'], flag: string, mended: string): Promise<string> =>
  mode === 'nftables'
    ? // Once packets shall meet the release.
      breakNft(
        `[ -e ${flag} ] || { [ ! -e ${mended} ] && grep -q 'add element inet sluice trial4' $text && touch ${flag}; }`,
      )
    : breakTools('nft', { iptables: `test -e ${flag}`, ip6tables: `test ! -e ${mended} && touch ${flag}` });

const applyAfter = (before: string): ReturnType<SluicedNode['sluiced']> =>
  node.sluicedAfter(before, 'apply', `${directory}/rendered`);

describe.each(oneInTurn(stores, 'both families'))('sluiced on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test('restores both families when ip6tables refuses after IPv4 was changed', async () => {
    node.writeConfig(backend);
    writeBundle(`${directory}/rendered`, dualIn('iptables', 1));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const log = `${directory}/log`;
    const tools = await breakTools(backend, { iptables: `! echo 4 >>${log}`, ip6tables: `echo 6 >>${log}` });
    const before = await node.rules(backend);
    writeBundle(`${directory}/rendered`, dualIn('iptables', 2));
    expect(await applyAfter(tools)).toMatchObject({
      exitCode: 4,
      stdout: expect.stringContaining('broken on purpose'),
    });
    expect(readFileSync(log, 'utf8'), 'IPv4 was changed first').toMatch(/^4\n(4\n)*6\n/);
    expect(await node.rules(backend)).toBe(before);
    expect(node.journal()?.open).toBeNull();
  });
});

describe.each(oneInTurn(plainPlanes, 'full disk'))('sluiced on $backend, mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  test('refuses a full or read-only state directory with a hint, and changes no rule', async () => {
    node.writeConfig(backend);
    writeBundle(`${directory}/rendered`, dualIn(mode, ...Array.from({ length: 90 }, (_, n) => n + 1)));
    mkdirSync(`${directory}/state`);
    const before = await node.forwarding(plane);
    const on = (options: string): string => `mount -t tmpfs -o ${options} tmpfs ${directory}/state &&`;
    expect(await applyAfter(on('size=64k'))).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('Free space'),
    });
    expect(await node.forwarding(plane)).toBe(before);
    expect(await applyAfter(on('ro'))).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('read-write') });
    expect(await node.forwarding(plane)).toBe(before);
  });
});

describe.each(oneInTurn(modesOnNft, 'failing rollback'))('sluiced in mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  const dual = (...endpoints: readonly number[]): ReadonlyMap<string, string> => dualIn(mode, ...endpoints);
  beforeEach((context) => needBackend(context, backend));

  test('halts with exit code 5 when the rollback fails, too, and `rollback N` resumes it', {
    timeout: 60_000,
  }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, dual(1, 4));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const flag = `${directory}/broken`;
    const tools = await breakHalfWay(mode, flag, `${directory}/never`);
    const again = mode === 'nftables' ? tools.replace('&&', `&& touch ${flag} &&`) : tools;
    const before = await node.forwarding(plane);
    writeBundle(`${directory}/rendered`, dual(2, 3));
    expect(await applyAfter(tools)).toMatchObject({
      exitCode: 5,
      stdout: expect.stringContaining('manual intervention required'),
    });
    // In mode nftables packets have met nothing else yet.
    expect((await node.forwarding(plane)) === before).toBe(mode === 'nftables');
    expect(await applyAfter(again), 'a halted node applies nothing').toMatchObject({ exitCode: 5 });
    expect(await node.sluiced('rollback', '1', '--endpoints', 'old', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await node.forwarding(plane)).toBe(before);
    expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
  });

  test('continues by itself when the kernel takes the old rules again', { timeout: 60_000 }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, dual(1, 4));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const [flag, mended] = [`${directory}/broken`, `${directory}/mended`];
    const tools = await breakHalfWay(mode, flag, mended);
    node.start(tools);
    await until('the daemon runs', async () => (await node.get('/healthz')) !== undefined);
    writeBundle(`${directory}/rendered`, dual(2, 3));
    await until('the node is halted', async () => node.journal()?.held != null, 30_000);
    // Both tools: the daemon may retry before the rollback does, and must not find one of them broken.
    writeFileSync(mended, '');
    rmSync(flag);
    await until('the rollback is done', async () => node.journal()?.held === null, 30_000);
    // It was planned from what the daemon remembered, so the refusal says nothing about it: it is tried again.
    await until('the release is confirmed', async () => node.journal()?.current?.number === 2, 30_000);
    await until('the daemon is healthy', async () => JSON.parse((await node.get()) ?? '{}').healthy === true);
    expect(node.journal()).toMatchObject({ held: null, quarantined: {} });
  });
});

describe('sluiced', () => {
  beforeEach((context) => needBackend(context, 'nft'));

  test('scans at once on SIGHUP, also where no event announces a new bundle', async () => {
    node.writeConfig('nft');
    const config = `${directory}/sluiced.yaml`;
    writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1', 'scanIntervalSeconds: 600'));
    for (const [name, endpoint] of [
      ['one', 1],
      ['two', 2],
    ] as const)
      writeBundle(`${directory}/far/${name}`, dualIn('iptables', endpoint, endpoint + 100));
    // A link in the middle of the path: neither the first nor the last directory shows that it was swapped.
    symlinkSync('one', `${directory}/far/now`);
    symlinkSync('far/now', `${directory}/rendered`);
    const daemon = node.start();
    await until('the first bundle is applied', async () => node.journal()?.current?.number === 1);
    // At the end of the round it checks whether it watches the right directory.
    await sleep(2_000);
    symlinkSync('two', `${directory}/far/next`);
    renameSync(`${directory}/far/next`, `${directory}/far/now`);
    await sleep(1_000);
    expect(node.journal()?.current?.number, 'no event announced it').toBe(1);
    daemon.kill('SIGHUP');
    await until('the second bundle is applied', async () => node.journal()?.current?.number === 2);
  });
});

const main = programPath('sluiced');

/** Rollbacks on a disk that is full, has no inode left or is read-only. */
const disks = [
  ['full', 'size=4m', 'dd if=/dev/zero of=$state/filler bs=4096 2> /dev/null || true'],
  ['without inodes', 'size=64m,nr_inodes=96', 'n=0; while touch $state/filler$n 2> /dev/null; do n=$((n + 1)); done'],
  ['read-only', 'size=64m', 'mount -o remount,ro $state'],
] as const;
const listOf = { iptables: 'iptables-nft-save -t nat', nftables: 'nft -n list table inet sluice' };

describe.each(
  disks.flatMap(([kind, options, spoil]) =>
    oneInTurn(['iptables', 'nftables'] as const, kind).map((mode) => ({ kind, options, spoil, mode })),
  ),
)('with a state directory that is $kind, in mode $mode', ({ kind, options, spoil, mode }) => {
  const list = listOf[mode];
  const printed = (endpoint: string): string => (mode === 'nftables' ? `: ${endpoint} . 8080` : `${endpoint}:8080`);
  beforeEach((context) => needBackend(context, 'nft'));

  /** Runs commands one after the other on one small disk. */
  const on = async (commands: readonly string[]): Promise<string> => {
    const state = `${directory}/state`;
    mkdirSync(state);
    const sluiced = `sluiced() { ${process.execPath} ${main} "$@" -c ${directory}/sluiced.yaml 2>&1; }`;
    const lines = [`mount -t tmpfs -o ${options} tmpfs ${state}`, `state=${state}`, sluiced, 'set -e', ...commands];
    return node.tool(['sh', '-c', lines.join('\n')]);
  };
  const publish = (name: string, ...endpoints: readonly number[]): void =>
    writeBundle(`${directory}/${name}`, dualIn(mode, ...endpoints));

  test('`sluiced rollback` restores the previous generation', { timeout: 60_000 }, async () => {
    node.writeConfig('nft');
    publish('one', 1, 2);
    publish('two', 7, 8, 9);
    const output = await on([
      `sluiced apply ${directory}/one`,
      `sluiced apply ${directory}/two`,
      spoil,
      'sluiced rollback --endpoints old --yes',
      list,
    ]);
    expect(output).toContain('Rolled back to generation 1 (version');
    expect(output.includes('warning: the journal was not updated')).toBe(kind === 'read-only');
    const rules = output.slice(output.lastIndexOf('Rolled back to generation 1'));
    expect(rules).toContain(printed('10.244.0.2'));
    expect(rules).not.toContain(printed('10.244.0.8'));
  });

  // A file system with a file open for writing cannot be remounted read-only, as the kernel does after an error.
  test.each(kind === 'read-only' ? [] : [kind])(
    '`sluiced cancel` rolls a release on probation back',
    {
      timeout: 60_000,
    },
    async () => {
      node.writeConfig('nft', 'probation: {seconds: 300, confirm: manual}\n');
      publish('rendered', 1, 2);
      publish('two', 7, 8, 9);
      const released = 'until sluiced history | grep -q "confirmed.*1"; do sleep 0.1; done';
      const output = await on([
        `${process.execPath} ${main} run -c ${directory}/sluiced.yaml > ${directory}/log 2>&1 & pid=$!`,
        'until sluiced confirm > /dev/null; do sleep 0.1; done',
        released,
        `rm -rf ${directory}/rendered && cp -r ${directory}/two ${directory}/rendered`,
        `until ${list} | grep -q '${printed('10.244.0.8')}'; do sleep 0.1; done; sleep 1`,
        spoil,
        'sluiced cancel',
        `until ! ${list} | grep -q '${printed('10.244.0.8')}'; do sleep 0.1; done`,
        `kill $pid || true; wait $pid || true; ${list}`,
      ]);
      expect(output).toContain(printed('10.244.0.2'));
      expect(output).not.toContain(printed('10.244.0.8'));
    },
  );
});

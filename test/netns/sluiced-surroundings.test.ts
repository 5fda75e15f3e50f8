// @module-tag test
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until, webIn } from './sluiced-node.ts';

/**
 * The tools of the real kernel are away for a while, and a release arrives: it ends confirmed by itself, nothing is quarantined, the node is
 * never halted, and is unhealthy meanwhile.
 */

beforeEach(needKernel);

/** A node for one test: they run together, as each waits for half a minute. */
async function onNode(work: (node: SluicedNode) => Promise<void>): Promise<void> {
  const node = await SluicedNode.make();
  try {
    await work(node);
  } finally {
    await node.remove();
  }
}

/** What a tool does instead of its work. */
const troubles = {
  'is missing': 'echo "sh: 1: $0: not found" >&2; exit 127',
  crashes: 'kill -SEGV $$',
  'is killed': 'kill -KILL $$',
  'prints garbage and fails': 'echo qwertz; echo asdfg >&2; exit 1',
  'prints garbage and succeeds': 'echo qwertz; exit 0',
} as const;

const multi = (family: string, what: string): readonly [string, string] => [
  `${family}-nft${what}`,
  `xtables-nft-multi ${family}-nft${what}`,
];
const wrapped = [
  ...['iptables', 'ip6tables'].flatMap((family) => ['', '-save', '-restore'].map((what) => multi(family, what))),
  ['nft', 'nft-real'],
  ['ipset', 'ipset-real'],
] as const;

/**
 * Tools that are in trouble while a file exists. Where another one exists, the trouble begins in the middle of a change: when its switch is
 * made, or looked at.
 * @returns shell text that mounts them over those of the system
 */
function wrap(node: SluicedNode, trouble: string, flag: string, armed: string): string {
  const tools = `${node.directory}/tools`;
  mkdirSync(tools);
  for (const name of ['nft', 'ipset']) copyFileSync(`/usr/sbin/${name}`, `${tools}/${name}-real`);
  const begins = `case "$(basename $0) $*" in "ipset restore"* | *"list set inet sluice trial4"*) [ ! -e ${armed} ] || touch ${flag} ;; esac`;
  for (const [name, real] of wrapped) {
    const script = ['#!/bin/sh', begins, `if [ -e ${flag} ]; then ${trouble}; fi`, `exec ${real} "$@"`, ''];
    writeFileSync(`${tools}/${name}`, script.join('\n'), { mode: 0o755 });
  }
  return `mount -t overlay overlay -o lowerdir=${tools}:/usr/sbin /usr/sbin &&`;
}

/** How long the trouble lasts: longer than all attempts in a row. */
const troubleMs = 25_000;
/** The release is confirmed within this time of its end: back-offs, a probation, and a busy machine. */
const healMs = 60_000;

const confirmed = (node: SluicedNode, number: number): boolean =>
  node.journal()?.current?.number === number && node.journal()?.open === null;

describe.each(['iptables', 'nftables'] as const)('in mode %s', { concurrent: true }, (mode) => {
  beforeEach((context) => needBackend(context, 'nft'));

  // Each trouble in one mode before a push, in both each night: what meets them is the same in both.
  const all = Object.entries(troubles);
  const drawn = atTier({ quick: all.filter((_, at) => (at % 2 === 0) === (mode === 'nftables')), all });
  test.each(drawn)('while each tool %s', { timeout: 180_000 }, async (what, trouble) =>
    onNode(async (node) => {
      const [flag, armed] = [`${node.directory}/away`, `${node.directory}/armed`];
      node.writeConfig('nft');
      writeBundle(`${node.directory}/rendered`, webIn(mode, 1, 2));
      node.start(wrap(node, trouble, flag, armed));
      await until('the first release is confirmed', async () => confirmed(node, 1), 60_000);
      writeFileSync(armed, '');
      writeBundle(`${node.directory}/rendered`, webIn(mode, 11, 12));
      await until('the trouble has begun', async () => existsSync(flag));
      await sleep(troubleMs);
      expect(node.journal()?.open, 'it began in the middle of the change').not.toBeNull();
      expect(JSON.parse((await node.get()) ?? '{}').healthy).toBe(false);
      expect(node.journal()).toMatchObject({ held: null, quarantined: {} });
      rmSync(armed);
      rmSync(flag);
      const startMs = performance.now();
      await until('the release is confirmed', async () => confirmed(node, 2), healMs);
      console.info(`${mode}, each tool ${what}: healed ${Math.round(performance.now() - startMs)} ms after its end`);
      expect(node.journal()).toMatchObject({ held: null, quarantined: {} });
      await until('the daemon is healthy', async () => JSON.parse((await node.get()) ?? '{}').healthy === true, 60_000);
    }),
  );
});

test('while another program holds the xtables lock', { timeout: 180_000, concurrent: true }, async (context) => {
  needBackend(context, 'legacy');
  await onNode(async (node) => {
    const flag = `${node.directory}/lock`;
    node.writeConfig('legacy');
    writeBundle(`${node.directory}/rendered`, webIn('iptables', 1, 2));
    // In the mount namespace of the daemon, which has a /run of its own.
    const lock = `( while [ ! -e ${flag} ]; do sleep 0.1; done; flock /run/xtables.lock sleep 35; rm ${flag} ) &`;
    node.start(lock);
    await until('the first release is confirmed', async () => confirmed(node, 1), 60_000);
    writeFileSync(flag, '');
    writeBundle(`${node.directory}/rendered`, webIn('iptables', 11, 12));
    await sleep(34_000);
    expect(node.journal()).toMatchObject({ held: null, quarantined: {} });
    const startMs = performance.now();
    await until('the release is confirmed', async () => confirmed(node, 2), healMs);
    console.info(`xtables lock: healed ${Math.round(performance.now() - startMs)} ms after its end`);
    expect(node.journal()).toMatchObject({ held: null, quarantined: {} });
  });
});

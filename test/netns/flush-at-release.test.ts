// @module-tag test
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, until as untilSoon } from './sluiced-node.ts';
import { confirmFirst, reached } from './sluiced-probation.ts';

/**
 * Another program flushes the rules around the arrival of a release. Probes that fail then fail for the flush: a bad release is not excused
 * by them, and a good one is not blamed for them.
 */

withNode();

const until: typeof untilSoon = (what, look) => untilSoon(what, look, 60_000);

/**
 * Each release changes all of these: what a release with few changes loads is read back chain by chain, and a flush shows in probation alone.
 * After a large one the tables are read back: it is taken back as planned from an outdated memory, and tried again with the same answers.
 */
const numbers = Array.from({ length: 199 }, (_, n) => n);

let releases = 0;

/** Puts a bundle in place at once, as most tools do: a directory that grows is looked at more than once, and drift is repaired between. */
function publish({ mode }: DataPlane, endpoints: readonly number[]): void {
  releases += 1;
  const others = Object.fromEntries(numbers.map((n) => [`other/s${n}`, [n + releases, n + releases + 110]]));
  const [place, next] = [`${node.directory}/rendered`, `${node.directory}/rendered-${releases}`];
  writeBundle(next, sampleBundle({ services: { 'shop/web': endpoints, ...others }, mode }));
  rmSync(place, { recursive: true, force: true });
  renameSync(next, place);
}

const flush = async ({ backend, mode }: DataPlane): Promise<void> => {
  if (mode === 'nftables') await node.tool(['nft', 'flush', 'ruleset']);
  else await node.tool(['sh', '-c', `iptables-${backend} -t nat -F; iptables-${backend} -F`]);
};

/** Milliseconds from the flush to the arrival of the release. */
const offsetsMs = atTier({ quick: [100, -50], all: [500, 100, 0, -50, -150] });

interface Ended {
  readonly what: string;
  readonly because?: string | undefined;
}

/** Publishes a release, and flushes the rules before or after it. @returns how it ended */
async function release(plane: DataPlane, endpoints: readonly number[], offsetMs: number): Promise<Ended> {
  const { history: before = [], quarantined: bad = {} } = node.journal() ?? {};
  if (offsetMs >= 0) {
    await flush(plane);
    await sleep(offsetMs);
  }
  publish(plane, endpoints);
  if (offsetMs < 0) {
    await sleep(-offsetMs);
    await flush(plane);
  }
  return until('the release has ended', async () => {
    const { history = [], open, quarantined = {} } = node.journal() ?? {};
    const last = history
      .slice(before.length)
      .findLast(({ what, lane }) => what === 'confirmed' || (what === 'rolled-back' && lane === undefined));
    const isEnded = last?.what === 'confirmed' || Object.keys(quarantined).length > Object.keys(bad).length;
    return open === null && isEnded && last;
  });
}

const planes = oneInTurn(plainPlanes, 'flush at a release');

describe.each(planes)('on $backend, mode $mode', { timeout: 400_000 }, (plane) => {
  beforeEach((context) => needBackend(context, plane.backend));

  test('rolls bad releases back and confirms good ones, whenever another program flushes the rules', async () => {
    await confirmFirst(node, plane);
    const probe = '{name: web, http: "http://10.96.0.11/", attempts: 2, timeoutSeconds: 0.4, intervalSeconds: 0.2}';
    node.writeConfig(plane.backend, `probation: {seconds: 2}\nprobes: [${probe}]\n`);
    const config = `${node.directory}/sluiced.yaml`;
    // As on most nodes: events find a flush, not a scan.
    writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1', 'scanIntervalSeconds: 5'));
    publish(plane, [1, 11]);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    node.start();
    await until('the daemon answers', () => node.get());
    let answer = 1;
    for (const [index, offsetMs] of offsetsMs.entries()) {
      for (const isGood of [false, true]) {
        const when = `a ${isGood ? 'good' : 'bad'} release, flushed ${offsetMs} ms before it`;
        await sleep(1500);
        if (isGood) answer = 3 - answer;
        const ended = await release(plane, isGood ? [answer, answer + 10] : [90, 91 + index], offsetMs);
        await until(`${when}: clients are served`, async () => (await reached(node)) === String(answer));
        expect([when, ended]).toEqual([when, expect.objectContaining({ what: isGood ? 'confirmed' : 'rolled-back' })]);
        expect([when, ended.because ?? '']).toEqual([when, expect.not.stringContaining('failing probes')]);
      }
    }
  });
});

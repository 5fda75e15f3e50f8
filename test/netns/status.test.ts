// @module-tag all
import { stripVTControlCharacters } from 'node:util';
import { programPath } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { plainPlanes, until } from './sluiced-node.ts';
import { deadmanSeconds, publishRelease, reached, startProbation } from './sluiced-probation.ts';

/** What an operator reads of a node while a release is tried, and after it. */

withNode();

const [plane] = plainPlanes.filter(({ backend, mode }) => backend === 'nft' && mode === 'iptables');

interface Told {
  readonly at: string;
  readonly newest: { readonly fate: string; readonly generation: number };
  readonly probation: {
    readonly generation: number;
    readonly token: string;
    readonly progress: {
      readonly ends: string;
      readonly deadman: string;
      readonly probes: readonly { readonly name: string; readonly healthy: boolean; readonly seen: string }[];
    };
  };
  readonly next: readonly { readonly what: string; readonly at: string | null }[];
}

describe('a release on probation', { timeout: 90_000 }, () => {
  const told = async (): Promise<Told> => JSON.parse((await node.sluiced('status', '-o', 'json')).stdout) as Told;
  const secondsUntil = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 1000;

  test('is told with its time, its probes, the deadline of the kernel and what comes next; its confirmation tells the outcome', async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, plane!);
    await until('a round of probes is over', async () => (await told()).probation.progress.probes.length === 1);
    const { at, newest, probation, next } = await told();
    expect(newest).toMatchObject({ fate: 'on probation', generation: 2 });
    expect(probation.progress.probes).toEqual([
      { name: 'web', healthy: true, seen: 'status 200', bad: 0, allowed: 9, counts: true },
    ]);
    const left = secondsUntil(at, probation.progress.ends);
    expect(left).toBeGreaterThan(200);
    expect(left).toBeLessThanOrEqual(300);
    const toDeadman = secondsUntil(at, probation.progress.deadman);
    expect(toDeadman).toBeGreaterThan(0);
    expect(toDeadman).toBeLessThanOrEqual(deadmanSeconds);
    expect(next).toEqual([{ what: 'the release is confirmed if its probes pass', at: probation.progress.ends }]);
    const { stdout } = await node.sluiced('status');
    expect(stdout).toMatch(/^newest .*on probation/m);
    expect(stdout).toMatch(/^ +probe web: good: status 200$/m);
    expect(stdout).toMatch(/^ +2\d\d s|\d min \d+ s left, until /m);

    expect(await node.sluiced('status', '--wait', 'settled', '--timeout', '1s')).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(/waited +in vain for settled: not within 1 s: version \w+ is on probation/),
    });
    expect(await node.sluiced('extend', '400')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^extend: version \w+ \(generation 2\) is on probation until /),
    });
    expect(await node.sluiced('confirm')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^confirm: version \w+ \(generation 2\) is confirmed/),
    });
    expect(await node.sluiced('status', '--wait', 'confirmed')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^waited +until confirmed$/m),
    });
  });

  test('is shown again on a terminal until Ctrl-C', async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, plane!);
    const command = `${process.execPath} ${programPath('sluiced')} status --watch -c ${node.directory}/sluiced.yaml`;
    const watching = `timeout --foreground --preserve-status -s INT 10 ${command}`;
    const text = await node.tool(['script', '-qec', watching, '/dev/null']);
    const pages = text.split('\u001B[H').map(stripVTControlCharacters);
    const ofProbation = pages.filter((page) => /^newest .*on probation/m.test(page));
    expect(ofProbation.length).toBeGreaterThan(1);
  });

  test('that is cancelled has its own number in the history, and the next one has another', async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, plane!);
    expect(await node.sluiced('cancel')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^cancel: version \w+ \(generation 2\) is rolled back: cancelled by the operator/),
    });
    expect(await reached(node)).toBe('1');
    expect(await node.sluiced('status', '--wait', 'confirmed', '--timeout', '20s')).toMatchObject({
      exitCode: 4,
      stdout: expect.stringMatching(/^newest .*\(generation 2\): rolled back since /m),
    });
    expect((await node.sluiced('history')).stdout).toMatch(/rolled-back +generation 2 /);
    // The directory holds the version that was cancelled: another one gets the next number.
    const services = { 'shop/web': [1, 11], 'shop/new': [2] };
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode: plane!.mode }));
    await until('the next release is tried', async () => (await told()).probation?.generation === 3);
  });
});

test.for(plainPlanes.filter(({ backend }) => backend === 'nft'))(
  'rules of mode $mode without their state directory are a finding',
  {
    timeout: 60_000,
  },
  async (one, context) => {
    needBackend(context, 'nft');
    node.writeConfig(one.backend);
    publishRelease(node, one, 1);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await node.sluiced('status')).toMatchObject({ exitCode: 0 });
    await node.tool(['sh', '-c', `rm -rf ${node.directory}/state`]);
    expect(await node.sluiced('status')).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(
        one.mode === 'nftables'
          ? /^kernel +HOLDS RULES of no generation: .*table inet sluice in the kernel/m
          : /^kernel +HOLDS RULES of no generation: \d+ chains of Sluice in the kernel/m,
      ),
    });
  },
);

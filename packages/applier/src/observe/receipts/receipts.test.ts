import { KernelError } from '../../ports/failure.ts';
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Seal } from '../../inbox/files.ts';
import { sampleNode } from '../../testing/bundle.fixture.ts';
import { type Account, accountOf } from './account.ts';
import { makeKey } from './key.ts';
import {
  state,
  directory,
  run,
  noon,
  release,
  seal,
  generation,
  failures,
  names,
  receiptWriter,
  newest,
  verified,
  withReceipts,
} from './receipts.fixture.ts';

withReceipts();

describe('a receipt', () => {
  let line: string;
  beforeEach(async () => {
    line = await makeKey(state, sampleNode, false, run);
  });

  test('has the release, its outcome and the probes, signed with the key of the node', async () => {
    const one = receiptWriter();
    one.onEvent('probation', { probes: [{ name: 'web', healthy: true, seen: 'status 200' }] });
    await one.report(accountOf({ kind: 'confirmed', generation, steps: 4 }), seal);
    expect(newest()).toEqual({
      node: sampleNode,
      number: noon / 1000,
      at: '2026-12-01T12:00:00Z',
      outcome: 'confirmed',
      release: {
        cluster: 'test',
        serial: 42,
        digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        version: release.nodes[sampleNode]?.version,
      },
      standing: { generation: 3, version: '7777777777777777' },
      serving: { mode: 'iptables', kubeProxy: 'absent' },
      codes: [],
      because: null,
      probes: [{ name: 'web', healthy: true }],
      sluiced: '0.1.0',
    });
    expect(verified(line)).toContain('Good "sluice-receipt" signature for node-a');
  });

  test('leaves out the output of probes', async () => {
    await receiptWriter().report(
      accountOf({ kind: 'rolled-back', because: 'health failed: web (status 500: "password=hunter2")' }),
      seal,
    );
    expect(newest().because).toBe('health failed: web (status 500: )');
  });

  test('leaves out the output of tools', async () => {
    const args = ['-c', 'echo "bad line: \\"password=hunter2\\"" >&2; exit 2'];
    const { why } = await run({ file: '/bin/sh', args });
    expect(why).toContain('hunter2');
    const { message } = new KernelError('iptables-restore', why, 'refused');
    await receiptWriter().report(accountOf({ kind: 'held', because: 'health failed', rollback: message }), seal);
    expect(newest().because).toBe('health failed; the rollback failed: Cannot run iptables-restore: exit code 2:');
  });

  const problem: Problem = { code: 'RELEASE_SERIAL', level: 'error', message: 'Cannot take it: too old', hint: 'x' };
  test.each([
    [
      'a directory that was refused',
      accountOf({ kind: 'refused', problems: [problem, problem] }),
      { outcome: 'refused', codes: ['RELEASE_SERIAL'], because: problem.message },
    ],
    [
      'a bundle that was refused',
      accountOf({ kind: 'refused', refusal: { problems: [problem] } }),
      { outcome: 'refused', codes: ['RELEASE_SERIAL'] },
    ],
    [
      'a node that is held',
      accountOf({ kind: 'held', because: 'a', rollback: 'b' }),
      { outcome: 'held', because: 'a; the rollback failed: b' },
    ],
    ['rules that were there already', accountOf({ kind: 'same', generation }), { outcome: 'same', because: null }],
  ])('has the outcome of %s', async (_title, account, expected) => {
    await receiptWriter().report(account, undefined);
    expect(newest()).toMatchObject({ ...expected, release: null });
  });

  test('is written once for one state, and again when it changes', async () => {
    for (const outcome of ['confirmed', 'confirmed', 'rolled-back', 'confirmed'] as const)
      await receiptWriter().report({ outcome }, seal);
    expect(names()).toHaveLength(3);
  });

  const refused = accountOf({ kind: 'refused', problems: [problem] });
  const update: Seal = { ...seal, sums: `${seal.sums}\n` };
  const [digest, other] = [fileDigest(seal.sums), fileDigest(update.sums)];
  type Word = readonly [
    outcome: 'confirmed' | 'same' | 'refused' | 'rolled-back',
    of: 'release' | 'update' | 'nothing',
  ];
  test.each<readonly [title: string, words: readonly Word[], last: object, count: number]>([
    [
      'endpoints that went in leave what was said of their release',
      [
        ['confirmed', 'release'],
        ['confirmed', 'update'],
        ['same', 'update'],
      ],
      { outcome: 'confirmed', release: { digest } },
      1,
    ],
    [
      'endpoints that were refused are told, and the release again when they go in',
      [
        ['confirmed', 'release'],
        ['refused', 'update'],
        ['confirmed', 'update'],
      ],
      { outcome: 'same', release: { digest } },
      3,
    ],
    [
      'a directory that was no release for a while is no word about the release',
      [
        ['confirmed', 'release'],
        ['refused', 'nothing'],
        ['same', 'update'],
      ],
      { outcome: 'same', release: { digest } },
      3,
    ],
    [
      'endpoints that go in do not cover that a release went back',
      [
        ['confirmed', 'release'],
        ['rolled-back', 'release'],
        ['refused', 'update'],
        ['confirmed', 'update'],
      ],
      { outcome: 'refused', release: { digest: other } },
      3,
    ],
    [
      'nor that one was refused',
      [
        ['confirmed', 'release'],
        ['refused', 'release'],
        ['confirmed', 'update'],
      ],
      { outcome: 'refused', release: { digest } },
      2,
    ],
  ])('%s, also over restarts', async (_title, words, last, count) => {
    for (const [outcome, of] of words)
      await receiptWriter().report(
        outcome === 'refused' ? refused : { outcome },
        { release: seal, update, nothing: undefined }[of],
        of === 'update',
      );
    expect(newest()).toMatchObject(last);
    expect(names()).toHaveLength(count);
  });

  const next: Seal = { ...seal, sums: `${seal.sums}\n\n` };
  test.each<
    readonly [title: string, before: readonly (readonly [Account['outcome'], Seal | undefined])[], last: object]
  >([
    ['the active release', [['confirmed', seal]], { release: { digest } }],
    [
      'the same after a release that was taken back',
      [
        ['confirmed', seal],
        ['rolled-back', update],
      ],
      { release: { digest } },
    ],
    ['no release where none is known', [], { release: null }],
    [
      'no release where another generation stands',
      [
        ['confirmed', seal],
        ['removed', undefined],
      ],
      { release: null },
    ],
  ])('names %s when a waiting release is no longer refused, also over restarts', async (_title, before, last) => {
    for (const [outcome, of] of before) await receiptWriter().report({ outcome }, of);
    const stands = before.at(-1)?.[0] === 'removed' ? 4 : 3;
    await receiptWriter({ stands }).report(refused, next);
    expect(newest()).toMatchObject({ outcome: 'refused', release: { digest: fileDigest(next.sums) } });
    const count = names().length;
    for (let turn = 0; turn < 2; turn++) await receiptWriter({ stands }).reportWaiting();
    expect(newest()).toMatchObject({ outcome: 'same', standing: { generation: stands }, codes: [], ...last });
    expect(names()).toHaveLength(count + 1);
    await receiptWriter({ stands }).report(refused, next);
    expect(newest().outcome).toBe('refused');
  });

  test('says once that a drain began or ended, also over restarts, and not over a refusal', async () => {
    await receiptWriter().reportDrain();
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    for (let turn = 0; turn < 2; turn++) await receiptWriter({ draining: 'operator' }).reportDrain();
    expect(newest()).toMatchObject({ outcome: 'same', release: { digest }, draining: 'operator' });
    for (let turn = 0; turn < 2; turn++) await receiptWriter().reportDrain();
    expect(newest()).toMatchObject({ outcome: 'same', release: { digest } });
    expect(newest()).not.toHaveProperty('draining');
    expect(names()).toHaveLength(3);
    await receiptWriter().report(refused, next);
    await receiptWriter({ draining: 'shutdown' }).reportDrain();
    expect(newest()).toMatchObject({ outcome: 'refused' });
  });

  test('is not written for a waiting release without a refusal before', async () => {
    await receiptWriter().reportWaiting();
    await receiptWriter().report({ outcome: 'rolled-back' }, seal);
    await receiptWriter().reportWaiting();
    expect(names()).toHaveLength(1);
  });

  test('is retried at the next look after a failed write', async () => {
    const one = receiptWriter();
    await one.report(refused, next);
    chmodSync(directory, 0o777);
    await one.reportWaiting();
    expect(failures.at(-1)).toContain('is writable by other users');
    chmodSync(directory, 0o755);
    await one.reportWaiting();
    expect([newest().outcome, failures.at(-1)]).toEqual(['same', undefined]);
  });

  test('is written again under a new key', async () => {
    await receiptWriter().report({ outcome: 'same' }, seal);
    line = await makeKey(state, sampleNode, true, run);
    await receiptWriter().report({ outcome: 'same' }, seal);
    expect(names()).toHaveLength(2);
    expect(verified(line)).toContain('Good');
  });

  test('is written again under a new key also after endpoint updates only', async () => {
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    await receiptWriter().report({ outcome: 'same' }, update, true);
    expect(names()).toHaveLength(1);
    line = await makeKey(state, sampleNode, true, run);
    for (let turn = 0; turn < 2; turn++) await receiptWriter().report({ outcome: 'same' }, update, true);
    expect(newest()).toMatchObject({ outcome: 'same', release: { digest } });
    expect(names()).toHaveLength(2);
    expect(verified(line)).toContain('Good');
  });

  test('has a growing number, also when the clock is set back or the state was lost', async () => {
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    await receiptWriter({ nowMs: 0 }).report({ outcome: 'same' }, seal);
    expect(newest().number).toBe(noon / 1000 + 1);
    rmSync(join(state, 'receipt.json'));
    await receiptWriter({ nowMs: noon + 60_000 }).report({ outcome: 'held' }, seal);
    expect(newest()).toMatchObject({ number: noon / 1000 + 60, outcome: 'held' });
  });

  test('removes the oldest, and keeps foreign files', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'node-b.0000000000000001.json'), '');
    for (let turn = 0; turn < 5; turn++)
      await receiptWriter({ keep: 2 }).report({ outcome: turn % 2 === 0 ? 'confirmed' : 'same' }, seal);
    expect(readdirSync(directory)).toHaveLength(5);
    expect(names().at(-1)).toBe('node-b.0000000000000001.json');
    rmSync(join(directory, 'node-b.0000000000000001.json'));
    expect(newest().outcome).toBe('confirmed');
  });

  test('is not written where other users can write, with an error', async () => {
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    expect(failures).toEqual([expect.stringContaining('is writable by other users')]);
    chmodSync(directory, 0o755);
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    expect(failures.at(-1)).toBeUndefined();
    expect(names()).toHaveLength(1);
  });
});

test('writes nothing without a key', async () => {
  await receiptWriter().report({ outcome: 'confirmed' }, seal);
  expect(failures).toEqual([undefined]);
  expect(() => readdirSync(directory)).toThrow('ENOENT');
});

test('a partial generation is reported as partial, and again after a refusal, an update or a restart', async () => {
  await makeKey(state, sampleNode, false, run);
  const partial = {
    of: '8'.repeat(16),
    services: ['shop/cart', 'shop/web'],
    because: 'health failed: cart ("secret")',
  };
  const ended = accountOf({ kind: 'confirmed', generation: { ...generation, partial }, steps: 3 });
  await receiptWriter({ partial }).report(ended, seal);
  const because = 'without shop/cart, shop/web: health failed: cart ( )';
  expect(newest()).toMatchObject({ outcome: 'partial', because, standing: { version: generation.version } });
  const refused = accountOf({
    kind: 'refused',
    problems: [{ code: 'BUNDLE_INVALID', level: 'error', message: 'x', hint: '' }],
  });
  await receiptWriter({ partial }).report(refused, undefined);
  expect(newest().outcome).toBe('refused');
  await receiptWriter({ partial }).reportWaiting();
  expect(newest()).toMatchObject({ outcome: 'partial', because, release: { serial: 42 } });
  const { length } = names();
  const same = accountOf({ kind: 'same', generation: { ...generation, partial } });
  await receiptWriter({ partial }).report(same, seal, true);
  await receiptWriter({ partial }).report(same, seal);
  expect(names()).toHaveLength(length);
  await receiptWriter().report(accountOf({ kind: 'confirmed', generation, steps: 1 }), seal);
  expect(newest()).toMatchObject({ outcome: 'confirmed', because: null });
});

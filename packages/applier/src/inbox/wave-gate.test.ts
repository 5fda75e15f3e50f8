import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey, publicKeyOf, signBy } from '@sluice/testing';
import { fileDigest, printOpening, printWaves, waveNamespace } from '@sluice/bundle';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { runChildren } from '../kernel/run.ts';
import type { Seal } from './files.ts';
import { ReleaseFloor } from './release-floor.ts';
import { trustOf } from './trust.ts';
import { WaveGate } from './wave-gate.ts';
import { WaveMemory } from './wave-memory.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-waves-'));
const state = join(scratch, 'state');
const allowedSigners = join(scratch, 'allowed_signers');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
for (const name of ['alice', 'mallory']) makeKey(join(scratch, name));
const sign = (text: string, name = 'alice', namespace: string = waveNamespace): string =>
  signBy(join(scratch, name), namespace, text);
const allow = (namespaces: string): void =>
  writeFileSync(allowedSigners, `alice namespaces="${namespaces}" ${publicKeyOf(join(scratch, 'alice'))}\n`);

const sums = 'the sums of release 7\n';
const digest = fileDigest(sums);
const waves = printWaves([
  { name: 'canary', nodes: ['node-a'] },
  { name: 'rest', nodes: ['node-b', 'node-c'] },
]);
const opened = (open: number, release = digest): string => printOpening({ release, open });
const seal = (part: Partial<Seal> = {}): Seal => ({ sums, release: '', signatures: new Map(), waves, ...part });
const signed = (text: string, ...by: readonly string[]): Partial<Seal> => ({
  opening: text,
  openingSignature: sign(text, ...by),
});
/** What the node says in one line; each asks a new process, so only the disk remembers. */
async function said(
  part: Partial<Seal>,
  node = 'node-b',
  policy: 'required' | 'none' = 'required',
  remember = true,
): Promise<string> {
  const gate = new WaveGate(
    { node, state, allowedSigners: policy === 'required' ? allowedSigners : undefined },
    { run: runChildren(), trust: trustOf(undefined), remember: () => remember },
  );
  const answer = await gate.check(seal(part));
  if (answer === undefined) return 'open';
  return 'problems' in answer
    ? `refused ${answer.problems[0]?.message}`
    : `waits ${answer.wave} ${answer.problem.message}`;
}

beforeEach(() => {
  rmSync(state, { recursive: true, force: true });
  new ReleaseFloor(state).write({ cluster: 'test', serial: 7, digest, signers: ['alice'] });
  allow('sluice-release,sluice-wave');
});

describe('a wave', () => {
  test.each([
    ['is closed until an operator opens it', {}, 'none is open'],
    ['is shut while only those before it are open', signed(opened(1)), '1 of 2 are open'],
    ['stays shut without a signature', { opening: opened(2) }, 'it has no signature'],
    ['stays closed when a foreign key opens it', signed(opened(2), 'mallory'), 'not in allowed_signers'],
    ['stays shut for a signature over a release', signed(opened(2), 'alice', 'sluice-release'), 'not sluice-wave'],
    ['stays shut when the line was changed and not signed', { ...signed(opened(1)), opening: opened(2) }, 'refuses it'],
    ['stays shut for the opening of another release', signed(opened(2, 'b'.repeat(64))), 'for another release'],
    ['stays shut for an opening that cannot be read', signed('open: 2\n'), 'apiVersion'],
  ] as const)('%s', async (_title, part, expected) => {
    const line = await said(part);
    expect(line).toContain('waits 2 ');
    expect(line).toContain(expected);
  });

  test('is open for its nodes, and closed for later waves', async () => {
    expect(await said(signed(opened(1)), 'node-b')).toContain('waits 2 ');
    expect(await said(signed(opened(1)), 'node-a')).toBe('open');
    // Each node has a state directory of its own.
    rmSync(state, { recursive: true, force: true });
    expect(await said(signed(opened(2)), 'node-b')).toBe('open');
  });

  test('does not open for a key that may only sign releases', async () => {
    allow('sluice-release');
    expect(await said(signed(opened(2)))).toContain('not allowed for namespace sluice-wave');
  });

  test('that was open stays open for this release, whatever happens to keys and files', async () => {
    expect(await said(signed(opened(2)))).toBe('open');
    allow('sluice-release');
    expect(await said({})).toBe('open');
    new ReleaseFloor(state).write({ cluster: 'test', serial: 8, digest: 'c'.repeat(64), signers: ['alice'] });
    expect(await said({})).toContain('waits');
  });

  test('that was open stays open for this release when its endpoints are updated', async () => {
    expect(await said(signed(opened(2)))).toBe('open');
    const update = { revision: 1, digest: 'd'.repeat(64), signers: ['ends'], onlyEndpoints: true } as const;
    new ReleaseFloor(state).write({ cluster: 'test', serial: 7, ...update });
    expect(await said({})).toBe('open');
    expect(new ReleaseFloor(state).isOpened(update.digest)).toBe(false);
  });

  describe('that was closed again', () => {
    const closed = (open: number, closings = 1): string => printOpening({ release: digest, closings, open });

    test('stays closed for a node that has not begun, also for the opening from before', async () => {
      const before = signed(opened(2));
      expect(await said(signed(closed(1)))).toContain('1 of 2 are open, after an operator closed waves');
      expect(await said(before)).toContain('waves-open.yaml is from before an operator closed waves');
      expect(await said({})).toContain('waves-open.yaml is missing');
      expect(await said(signed(closed(2)))).toBe('open');
      expect(await said(before)).toBe('open');
    });

    test('is closed for a node that has seen it open, and has not taken the release', async () => {
      const before = signed(opened(2));
      expect(await said(before)).toBe('open');
      expect(await said(signed(closed(1)))).toContain('waits 2 ');
      expect(await said(before)).toContain('from before');
      expect(await said({})).toContain('is missing');
    });

    test('stays open for a node that has taken the release, with its key withdrawn, too', async () => {
      expect(await said(signed(opened(2)))).toBe('open');
      new WaveMemory(state).take(digest);
      expect(await said(signed(closed(0)))).toBe('open');
      allow('sluice-release');
      expect(await said({})).toBe('open');
    });

    test('stays open for a node of a wave before it', async () => {
      expect(await said(signed(opened(2)), 'node-a')).toBe('open');
      expect(await said(signed(closed(1)), 'node-a')).toBe('open');
      expect(await said(signed(closed(0, 2)), 'node-a')).toContain('none is open, after an operator closed waves');
    });

    test.each([
      ['no signature', { opening: closed(0) }],
      ['a foreign signature', signed(closed(0), 'mallory')],
      ['a signature over a release', signed(closed(0), 'alice', 'sluice-release')],
      ['the signature of the opening from before', { ...signed(opened(2)), opening: closed(0) }],
      ['the digest of another release', signed(printOpening({ release: 'b'.repeat(64), closings: 9, open: 0 }))],
    ] as const)('is not closed by a closing with %s', async (_title, part) => {
      expect(await said(signed(opened(2)))).toBe('open');
      expect(await said(part)).toBe('open');
      expect(await said(signed(closed(1)))).toContain('waits 2 ');
    });

    test('forgets nothing while an endpoint update comes and goes, and everything with another release', async () => {
      expect(await said(signed(closed(1)))).toContain('waits 2 ');
      const update = { revision: 1, digest: 'd'.repeat(64), signers: ['ends'], onlyEndpoints: true } as const;
      new ReleaseFloor(state).write({ cluster: 'test', serial: 7, ...update });
      expect(await said(signed(opened(2)))).toContain('from before');
      const next = fileDigest('the sums of release 8\n');
      new ReleaseFloor(state).write({ cluster: 'test', serial: 8, digest: next, signers: ['alice'] });
      expect(await said({ sums: 'the sums of release 8\n', ...signed(opened(2, next)) })).toBe('open');
    });

    test('is closed by a dry run for this time only', async () => {
      expect(await said(signed(opened(2)))).toBe('open');
      expect(await said(signed(closed(1)), 'node-b', 'required', false)).toContain('waits 2 ');
      expect(await said(signed(opened(2)))).toBe('open');
    });

    test('counts by the file alone where releases need no signature', async () => {
      expect(await said({ opening: closed(1) }, 'node-b', 'none')).toContain('waits 2 ');
      expect(await said({ opening: opened(2) }, 'node-b', 'none')).toBe('open');
    });

    test('stays as it is for a damaged waves.json', async () => {
      expect(await said(signed(opened(2)))).toBe('open');
      writeFileSync(join(state, 'waves.json'), '{"schema":1,"release":7}\n');
      expect(await said(signed(opened(2)))).toBe('open');
      expect(await said(signed(closed(1)))).toContain('waits 2 ');
    });
  });

  test('needs no signature where releases need none', async () => {
    expect(await said({ opening: opened(2) }, 'node-b', 'none')).toBe('open');
    expect(await said({ opening: opened(1) }, 'node-b', 'none')).toContain('waits');
  });
});

test('a release without waves does not wait; one whose waves lack this node is refused', async () => {
  expect(await said({ waves: undefined })).toBe('open');
  expect(await said({}, 'node-x')).toContain('refused Cannot accept the release: no wave contains node node-x');
  expect(await said({ waves: 'waves: 7\n' })).toContain('refused Cannot read waves.yaml');
});

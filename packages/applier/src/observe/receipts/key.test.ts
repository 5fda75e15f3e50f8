import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Run } from '../../kernel/command.ts';
import { sampleNode } from '../../testing/bundle.fixture.ts';
import { makeKey } from './key.ts';
import { state, run, seal, failures, receiptWriter, verified, withReceipts } from './receipts.fixture.ts';

withReceipts();

describe('the key', () => {
  test('is readable only by its owner, kept if it exists, and replaced by --renew', async () => {
    const line = await makeKey(state, sampleNode, false, run);
    expect(line).toMatch(/^node-a namespaces="sluice-receipt" ssh-ed25519 \S+$/);
    expect(statSync(join(state, 'receipt_key')).mode & 0o777).toBe(0o600);
    expect(await makeKey(state, sampleNode, false, run)).toBe(line);
    expect(await makeKey(state, sampleNode, true, run)).not.toBe(line);
    expect(readdirSync(state).toSorted()).toEqual(['receipt_key', 'receipt_key.pub']);
  });

  const publicFile = join(state, 'receipt_key.pub');
  let former = '';
  test.each([
    ['is gone', () => rmSync(publicFile)],
    ['is that of a former key', () => writeFileSync(publicFile, former)],
    ['was cut', () => writeFileSync(publicFile, 'ssh-ed25519')],
  ])('is what keygen prints, and its public half is repaired when it %s', async (_title, harm) => {
    await makeKey(state, sampleNode, false, run);
    former = readFileSync(publicFile, 'utf8');
    const line = await makeKey(state, sampleNode, true, run);
    const whole = readFileSync(publicFile, 'utf8');
    harm();
    expect(await makeKey(state, sampleNode, false, run)).toBe(line);
    expect(readFileSync(publicFile, 'utf8')).toBe(whole);
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    expect(verified(line)).toContain('Good');
  });

  test('signs after a renewal was killed before the public half was written, which the next keygen writes', async () => {
    const before = await makeKey(state, sampleNode, false, run);
    const killed: Run = async (command) => {
      if (command.args.includes('-y')) throw new Error('killed');
      return run(command);
    };
    await expect(makeKey(state, sampleNode, true, killed)).rejects.toThrow('killed');
    await receiptWriter().report({ outcome: 'held' }, seal);
    expect(failures).toEqual([undefined]);
    const line = await makeKey(state, sampleNode, false, run);
    expect(line).not.toBe(before);
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    expect(verified(line)).toContain('Good');
  });

  test('removes leftovers of an old killed run, not those of a running one', async () => {
    for (const name of ['.keygen-old', '.keygen-new']) mkdirSync(join(state, name), { recursive: true });
    utimesSync(join(state, '.keygen-old'), 0, 0);
    await makeKey(state, sampleNode, false, run);
    expect(readdirSync(state).toSorted()).toEqual(['.keygen-new', 'receipt_key', 'receipt_key.pub']);
  });

  test.each([
    ['is no key', () => writeFileSync(join(state, 'receipt_key'), 'x', { mode: 0o600 }), 'cannot use receipt_key'],
    ['is a folder', () => mkdirSync(join(state, 'receipt_key')), 'only its owner can read'],
    ['lies in a folder that is a file', () => (rmSync(state, { recursive: true }), writeFileSync(state, '')), state],
  ])('that %s is an error with a hint', async (_title, harm, why) => {
    mkdirSync(state);
    harm();
    const made = makeKey(state, sampleNode, false, run);
    await expect(made).rejects.toMatchObject({
      code: 'NODE_STATE_INVALID',
      message: expect.stringContaining(why),
      hint: expect.stringMatching(/./),
    });
  });

  test('signs nothing when other users can read it', async () => {
    await makeKey(state, sampleNode, false, run);
    chmodSync(join(state, 'receipt_key'), 0o640);
    await expect(makeKey(state, sampleNode, false, run)).rejects.toThrow('only its owner can read');
    await receiptWriter().report({ outcome: 'confirmed' }, seal);
    expect(failures).toEqual([expect.stringContaining('only its owner can read')]);
  });
});

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileDigest, isProblem, printOpening, readOpening, waveNamespace } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';
import { at, promote, release, say, sign, withFleet } from './fleet.fixture.ts';

withFleet();

const file = join(release, 'waves-open.yaml');
const close = (...more: readonly string[]) => sluice('promote', release, '--key', at('waves'), '--close', ...more);
const stated = () => {
  const read = readOpening(readFileSync(file, 'utf8'));
  if (isProblem(read)) throw new Error(read.message);
  const { closings = 0, open } = read;
  return `closings ${closings}, open ${open}`;
};
/** Writes the opening, and the signature over another one, or none. */
function place(opening: object, signed?: object): void {
  const text = (one: object): string =>
    printOpening({ release: fileDigest(readFileSync(join(release, 'SHA256SUMS'))), open: 0, ...one });
  writeFileSync(file, text(opening));
  rmSync(`${file}.sig`, { force: true });
  if (signed) writeFileSync(`${file}.sig`, sign(text(signed), 'waves', waveNamespace));
}
/** The result and the exit code of a command with `-o json`. */
async function resultOf(answer: ReturnType<typeof sluice>) {
  const { status, stdout, stderr } = await answer;
  const { result, open, notBefore } = JSON.parse(stdout) as Record<string, unknown>;
  return { status, result, open, notBefore, stderr };
}

describe('sluice promote --close', () => {
  beforeEach(async () => {
    await promote();
    say('node-1', 'confirmed');
    await promote();
  });

  test('closes the last open wave, then the one before; a later opening has the closings', async () => {
    expect(await close()).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(': closed others (1 node)\n'),
    });
    expect(stated()).toBe('closings 1, open 1');
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 2 of 2') });
    expect(stated()).toBe('closings 1, open 2');
    await close('canary');
    expect(stated()).toBe('closings 2, open 0');
    expect(await resultOf(close('-o', 'json'))).toMatchObject({ status: 0, result: 'all-closed', open: 0 });
    expect(stated()).toBe('closings 2, open 0');
  });

  test('closes a wave once, by its name', async () => {
    expect(await resultOf(close('others', '-o', 'json'))).toMatchObject({ status: 0, result: 'closed', open: 1 });
    expect(await resultOf(close('others', '-o', 'json'))).toMatchObject({ status: 0, result: 'all-closed', open: 1 });
    expect(stated()).toBe('closings 1, open 1');
  });

  test('only says what it would close with --dry-run', async () => {
    expect(await resultOf(close('canary', '--dry-run', '-o', 'json'))).toMatchObject({ result: 'may-close', open: 0 });
    expect(stated()).toBe('closings 0, open 2');
  });

  test('without a key removes the old signature and says how to sign', async () => {
    expect(await sluice('promote', release, '--close')).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('ssh-keygen -Y sign -n sluice-wave'),
    });
    expect(stated()).toBe('closings 1, open 1');
    expect(existsSync(`${file}.sig`)).toBe(false);
  });

  test('completes a closing that was interrupted before its signature', async () => {
    place({ closings: 1, open: 1 }, { open: 2 });
    await close();
    expect(stated()).toBe('closings 2, open 1');
    place({ closings: 1, open: 1 }, { open: 2 });
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 1 of 2') });
    expect(stated()).toBe('closings 1, open 1');
  });

  test.each([
    ['more open waves', { open: 2 }, { open: 1 }, 'canary', 'closings 1, open 0'],
    ['fewer open waves', { open: 0 }, { open: 2 }, 'others', 'closings 1, open 1'],
  ] as const)(
    'starts from the signature where a foreign hand wrote %s',
    async (_title, wrote, signed, name, expected) => {
      place(wrote, signed);
      await close(name);
      expect(stated()).toBe(expected);
    },
  );

  test.each([
    ['closings', { closings: 999, open: 1 }],
    ['an opening', { open: 2 }],
  ])('signs nothing where no signature covers %s', async (_title, wrote) => {
    place(wrote, { open: 3, closings: 5 });
    expect(await close()).toMatchObject({ status: 2, stderr: expect.stringContaining('no signature covers it') });
    expect(readFileSync(file, 'utf8')).toContain(`open: ${wrote.open}`);
  });

  test('promotes nothing where no signature covers the closings', async () => {
    place({ closings: 999, open: 0 }, { open: 2 });
    expect(await promote()).toMatchObject({ status: 2, stderr: expect.stringContaining('no signature covers it') });
  });

  test.each([
    ['a wave that the release does not have', ['nodes'], 'the release has no wave nodes'],
    ['receipts', ['--receipts', 'receipts'], "cannot be used with option '--receipts <DIR>'"],
    ['--auto', ['--auto'], "cannot be used with option '--auto'"],
  ] as const)('refuses %s', async (_title, more, expected) => {
    expect(await close(...more)).toMatchObject({ status: 2, stderr: expect.stringContaining(expected) });
    expect(stated()).toBe('closings 0, open 2');
  });

  test('ends at the greatest number of closings', async () => {
    place({ closings: 999, open: 2 }, { closings: 999, open: 2 });
    expect(await close()).toMatchObject({ status: 2, stderr: expect.stringContaining('closed 999 times') });
  });
});

describe('sluice promote --auto', () => {
  const auto = (...more: readonly string[]) => resultOf(promote('--auto', '--after', '15m', '-o', 'json', ...more));
  afterEach(() => void vi.useRealTimers());
  /** The time of the pipeline; nodes say 12:00. */
  const at12 = (minutes: number): void => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-12-01T12:00:00Z') + minutes * 60_000 });
  };

  test('opens the first wave at once, and the next one in time after the youngest confirmation', async () => {
    at12(0);
    expect(await auto()).toMatchObject({ status: 0, result: 'opened', open: 1 });
    expect(await auto()).toMatchObject({
      status: 0,
      result: 'waiting',
      open: 1,
      notBefore: null,
      stderr: expect.stringMatching(/^note: Cannot open the next wave: node-1 is silent: no receipt /),
    });
    say('node-1', 'confirmed');
    at12(14.99);
    expect(await auto()).toMatchObject({
      status: 0,
      result: 'waiting',
      open: 1,
      notBefore: '2026-12-01T12:15:00Z',
      stderr: expect.stringMatching(/^note: Cannot open the next wave yet: node-1 confirmed the release at /),
    });
    at12(15);
    expect(await auto('--dry-run')).toMatchObject({ status: 0, result: 'may-open', open: 2 });
    expect(await auto()).toMatchObject({ status: 0, result: 'opened', open: 2 });
    const before = readFileSync(file);
    expect(await auto()).toMatchObject({ status: 0, result: 'all-open', open: 2 });
    expect(readFileSync(file)).toEqual(before);
  });

  test('waits for a node whose clock is ahead, and says until when', async () => {
    at12(0);
    await auto();
    say('node-1', 'confirmed', { at: '2030-01-01T00:00:00Z' });
    expect(await auto()).toMatchObject({ result: 'waiting', notBefore: '2030-01-01T00:15:00Z' });
  });

  test('ends with 1 for a node that has failed, however long ago', async () => {
    await auto();
    say('node-1', 'rolled-back');
    at12(600);
    expect(await auto()).toMatchObject({
      status: 1,
      result: 'blocked',
      stderr: expect.stringMatching(/^error: Cannot open the next wave: node-1 is rolled back/),
    });
  });

  test('opens no wave that an operator closed', async () => {
    await auto();
    say('node-1', 'confirmed');
    at12(60);
    await auto();
    await close();
    expect(await auto()).toMatchObject({
      status: 1,
      result: 'blocked',
      open: 1,
      stderr: expect.stringContaining('closed by an operator'),
    });
    expect(stated()).toBe('closings 1, open 1');
  });

  test('says in text that it has nothing to do', async () => {
    await auto();
    expect(await promote('--auto')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('nothing to open yet'),
      stderr: expect.stringContaining('note: Cannot open the next wave: node-1 is silent'),
    });
  });

  test.each(['0s', '15', '721h', 'soon'])('refuses --after %s', async (time) => {
    expect(await promote('--after', time)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('from 1s to 720h'),
    });
  });
});

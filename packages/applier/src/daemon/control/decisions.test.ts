import { describe, expect, test } from 'vitest';
import { Decisions } from './decisions.ts';

describe('a decision', () => {
  const release = { phase: 'open', changeKind: 'release', version: 'v2', to: { number: 2, revision: 0 } };
  function on(open: object | undefined, held?: string): Decisions {
    const decisions = new Decisions('node-a', { open: open as never, halted: held });
    decisions.forget();
    return decisions;
  }

  test('is delivered once, and dropped when another probation begins', async () => {
    const decisions = on(release);
    decisions.take({ decision: { kind: 'confirm' } });
    expect(await decisions.ask()).toEqual({ kind: 'confirm' });
    expect(await decisions.ask()).toBeUndefined();
    decisions.take({ decision: { kind: 'cancel' } });
    decisions.forget();
    expect(await decisions.ask()).toBeUndefined();
  });

  test('to cancel is final', async () => {
    const decisions = on(release);
    decisions.take({ decision: { kind: 'extend', seconds: 5 } });
    decisions.take({ decision: { kind: 'cancel' } });
    expect(() => decisions.take({ decision: { kind: 'confirm' } })).toThrow('it is already cancelled');
    expect(await decisions.ask()).toEqual({ kind: 'cancel' });
    expect(() => decisions.take({ decision: { kind: 'extend', seconds: 5 } })).toThrow('it is already cancelled');
    decisions.forget();
    expect(decisions.take({ decision: { kind: 'confirm' } }), 'of the next release').toMatchObject({ version: 'v2' });
  });

  test('with a token applies only to its probation', async () => {
    const decisions = on(release);
    const { token } = decisions.probation!;
    expect(token).toMatch(/^[0-9a-f]{8}$/);
    expect(decisions.take({ decision: { kind: 'confirm' }, token })).toMatchObject({ version: 'v2' });
    decisions.forget();
    expect(() => decisions.take({ decision: { kind: 'confirm' }, token })).toThrow('belongs to another probation');
    expect(await decisions.ask()).toBeUndefined();
  });

  test.each([
    ['no change is open', undefined, undefined],
    ['only endpoints change', { ...release, changeKind: 'endpoints' }, undefined],
    ['the release is committed', { ...release, phase: 'committed' }, undefined],
    ['the node is halted', release, 'the rollback failed'],
  ])('is refused when %s', (_title, open, held) => {
    expect(() => on(open, held).take({ decision: { kind: 'confirm' } })).toThrow('no release is on probation');
  });

  test('is refused for a release that an earlier process left open', () => {
    const decisions = new Decisions('node-a', { open: release as never, halted: undefined });
    expect(() => decisions.take({ decision: { kind: 'cancel' } })).toThrow('no release is on probation');
  });
});

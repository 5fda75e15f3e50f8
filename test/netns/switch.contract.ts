import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { TableName } from '@sluice/netfilter';
import { limits } from '../../packages/applier/src/limits.ts';
import type { Kernel, SwitchState, Step, Switch } from '../../packages/applier/src/ports/kernel.ts';

/** A kernel with a switch, and a way to advance its clock. */
export interface SwitchCandidate {
  readonly kernel: Kernel;
  readonly passMs?: (ms: number) => void;
}

const asks = (command: string): Step => ({
  kind: 'restore-table',
  family: 'ipv6',
  table: 'filter',
  text: `*filter\n${command}COMMIT\n`,
  because: 'the contract suite needs it',
});
const namesSet = asks(':SLUICE-X - [0:0]\n-A SLUICE-X -m set --match-set SLUICE-F src -j RETURN\n');

/** Milliseconds before something was done and after it. */
type Span = readonly [number, number];

/** The possible states of a set with a time-out, given only the two spans within which it was renewed and read. */
function mayBe([renewedFrom, renewedTo]: Span, [from, to]: Span, timeoutSeconds: number): readonly SwitchState[] {
  // The kernel removes expired entries only now and then.
  const lateMs = 1_000;
  if (to - renewedFrom < timeoutSeconds * 1_000) return ['on'];
  return from - renewedTo > timeoutSeconds * 1_000 + lateMs ? ['off'] : ['on', 'off'];
}

/**
 * The contract of the switch: what probation, the dead-man switch and rollback rely on.
 * @param open gives a kernel without rules and sets
 */
export function switchContract(name: string, open: () => Promise<SwitchCandidate>): void {
  const start = async (): Promise<SwitchCandidate & { readonly switchStates: Switch }> => {
    const candidate = await open();
    const switchStates = candidate.kernel.switch;
    if (!switchStates) throw new Error('the kernel has no switch');
    return { ...candidate, switchStates };
  };

  test(`${name}: read, turn off and remove are no-ops before the sets are created`, async () => {
    const { switchStates } = await start();
    expect(await switchStates.look()).toBeUndefined();
    await switchStates.off('nat');
    await switchStates.remove();
    await expect(switchStates.on(30)).rejects.toThrow('Cannot run');
  });

  test(`${name}: the sets are created off, turned on together and off one by one, and creating them again changes nothing`, async () => {
    const { switchStates } = await start();
    await switchStates.make([]);
    expect(await switchStates.look()).toEqual({ nat: 'off', filter: 'off' });
    await switchStates.on(30);
    await switchStates.make([]);
    expect(await switchStates.look()).toEqual({ nat: 'on', filter: 'on' });
    await switchStates.off('nat');
    expect(await switchStates.look()).toEqual({ nat: 'off', filter: 'on' });
    await switchStates.off('filter');
    expect(await switchStates.look()).toEqual({ nat: 'off', filter: 'off' });
  });

  test(`${name}: the sets expire, nat's before filter's, unless they are renewed or pinned`, async () => {
    const { switchStates, passMs } = await start();
    let passedMs = 0;
    const nowMs = (): number => (passMs ? passedMs : performance.now());
    const pass = async (ms: number): Promise<void> => {
      passedMs += ms;
      await (passMs ? passMs(ms) : sleep(ms));
    };
    await switchStates.make([]);
    // In an emulated machine one read takes seconds: the time-outs have to be longer than the reads.
    const beforeLookMs = nowMs();
    await switchStates.look();
    const seconds = Math.max(2, Math.ceil((3 * (nowMs() - beforeLookMs)) / 1_000));
    await switchStates.on(seconds);
    await pass(seconds * 600);
    const renewed: Span = [nowMs(), await switchStates.on(seconds).then(nowMs)];
    await pass(seconds * 600);
    for (
      let last: Readonly<Record<TableName, SwitchState>> | undefined;
      last?.nat !== 'off' || last.filter !== 'off';
    ) {
      const fromMs = nowMs();
      last = await switchStates.look();
      const looked: Span = [fromMs, nowMs()];
      const filterSeconds = seconds + limits.deadmanFilterSeconds;
      expect(mayBe(renewed, looked, seconds), `nat, ${looked.join()}`).toContain(last?.nat);
      expect(mayBe(renewed, looked, filterSeconds), `filter, ${looked.join()}`).toContain(last?.filter);
      await pass(100);
    }
    await switchStates.on(0);
    await pass((seconds + limits.deadmanFilterSeconds) * 1_000 + 1_000);
    expect(await switchStates.look()).toEqual({ nat: 'pinned', filter: 'pinned' });
  });

  test(`${name}: a rule needs an existing set, which cannot be removed before the rule`, async () => {
    const { kernel, switchStates } = await start();
    await expect(kernel.apply(namesSet)).rejects.toThrow('Cannot run');
    await switchStates.make([]);
    await kernel.apply(namesSet);
    await expect(switchStates.remove()).rejects.toThrow('Cannot run');
    await kernel.apply(asks(':SLUICE-X - [0:0]\n-X SLUICE-X\n'));
    await switchStates.remove();
    expect(await switchStates.look()).toBeUndefined();
  });

  test(`${name}: a switch for some sources works as one for all`, async () => {
    const { switchStates } = await start();
    await switchStates.make(['10.244.7.0/24', 'fd00:7::/64']);
    await switchStates.on(30);
    expect(await switchStates.look()).toEqual({ nat: 'on', filter: 'on' });
  });
}

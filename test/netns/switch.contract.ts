import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Kernel, Step, Switch } from '../../packages/applier/src/rollout/ports.ts';

/** A kernel with a switch, and a way to let its clock go on. */
export interface SwitchCandidate {
  readonly kernel: Kernel;
  readonly passMs?: (ms: number) => void;
}

const asks = (command: string): Step => ({
  kind: 'restore-table',
  family: 'ipv6',
  table: 'filter',
  text: `*filter\n${command}COMMIT\n`,
  because: 'the exam asks for it',
});
const namesSet = asks(':SLUICE-X - [0:0]\n-A SLUICE-X -m set --match-set SLUICE-F src -j RETURN\n');

/**
 * The exam of the switch: what a trial, its dead-man and the way back rely on.
 * @param open gives a kernel without rules and sets
 */
export function switchContract(name: string, open: () => Promise<SwitchCandidate>): void {
  const start = async (): Promise<SwitchCandidate & { readonly lamps: Switch }> => {
    const candidate = await open();
    const lamps = candidate.kernel.switch;
    if (!lamps) throw new Error('the kernel has no switch');
    return { ...candidate, lamps };
  };

  test(`${name}: there is nothing to look at, to turn off or to remove before the sets are made`, async () => {
    const { lamps } = await start();
    expect(await lamps.look()).toBeUndefined();
    await lamps.off('nat');
    await lamps.remove();
    await expect(lamps.on(30)).rejects.toThrow('Cannot run');
  });

  test(`${name}: the sets are made off, turned on together and off one by one, and making them again changes nothing`, async () => {
    const { lamps } = await start();
    await lamps.make([]);
    expect(await lamps.look()).toEqual({ nat: 'off', filter: 'off' });
    await lamps.on(30);
    await lamps.make([]);
    expect(await lamps.look()).toEqual({ nat: 'on', filter: 'on' });
    await lamps.off('nat');
    expect(await lamps.look()).toEqual({ nat: 'off', filter: 'on' });
    await lamps.off('filter');
    expect(await lamps.look()).toEqual({ nat: 'off', filter: 'off' });
  });

  test(`${name}: what is on goes off by itself, nat's before filter's, unless it is renewed or pinned`, async () => {
    const { lamps, passMs } = await start();
    const pass = async (ms: number): Promise<void> => (passMs ? passMs(ms) : sleep(ms).then(() => undefined));
    await lamps.make([]);
    await lamps.on(2);
    await pass(1_200);
    await lamps.on(2);
    await pass(1_200);
    expect(await lamps.look(), 'renewed').toEqual({ nat: 'on', filter: 'on' });
    let last = await lamps.look();
    let askedMs = performance.now();
    let betweenMs = 0;
    while (last?.nat === 'on') {
      await pass(100);
      const beforeMs = askedMs;
      askedMs = performance.now();
      last = await lamps.look();
      betweenMs = performance.now() - beforeMs;
    }
    // filter stays on for two seconds more. An emulated machine may take longer between two looks, and see neither.
    const filter = betweenMs < 1_500 ? ['on'] : ['on', 'off'];
    expect(last?.nat, 'expired').toBe('off');
    expect(filter, 'expired').toContain(last?.filter);
    await lamps.on(0);
    await pass(4_500);
    expect(await lamps.look()).toEqual({ nat: 'pinned', filter: 'pinned' });
  });

  test(`${name}: a rule names a set that is there, which stays as long as it does`, async () => {
    const { kernel, lamps } = await start();
    await expect(kernel.apply(namesSet)).rejects.toThrow('Cannot run');
    await lamps.make([]);
    await kernel.apply(namesSet);
    await expect(lamps.remove()).rejects.toThrow('Cannot run');
    await kernel.apply(asks(':SLUICE-X - [0:0]\n-X SLUICE-X\n'));
    await lamps.remove();
    expect(await lamps.look()).toBeUndefined();
  });

  test(`${name}: a trial for some sources is a switch like any other`, async () => {
    const { lamps } = await start();
    await lamps.make(['10.244.7.0/24', 'fd00:7::/64']);
    await lamps.on(30);
    expect(await lamps.look()).toEqual({ nat: 'on', filter: 'on' });
  });
}

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { slotBytes } from '../../state/slots.ts';
import { limits } from '../../limits.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { Probes } from '../../ports/probes.ts';
import { StateError } from '../../state/state-error.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { bootAsUsual, bootConfig, bootFrozen, type BootNode, type BootTime, fallbacksMs, type Time } from './boot.ts';

const bundleOf = (...endpoints: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': endpoints } });
const never = (): AbortSignal => new AbortController().signal;
/** Nothing here waits on the clock between tries. */
const waits: Time = { monotonicMs: () => 0, sleep: async () => undefined };
const inTime = (): BootTime => ({ patience: never(), fallbacks: never(), waits });
const late = (): BootTime => ({ patience: AbortSignal.abort(), fallbacks: never(), waits });
const readOnly = new StateError('NODE_STATE_INVALID', 'the disk takes no write', 'Mount it');

let node: Scene;
let said: { out: string; err: string };
const terminal = { out: (text: string) => void (said.out += text), err: (text: string) => void (said.err += text) };
beforeEach(() => {
  said = { out: '', err: '' };
  node = scene();
});
afterEach(() => node.end());

const rules = (): string => node.kernel.save('ipv4');
const asUsual = (session: BootNode, time = inTime()): Promise<number> => bootAsUsual(session, time, terminal);

/** Generations 1, 2 and so on, and what the kernel holds of each. */
async function put(...bundles: readonly (readonly number[])[]): Promise<readonly string[]> {
  const { reconciler } = await node.start();
  const held: string[] = [];
  for (const endpoints of bundles) {
    expect((await reconciler.put(bundleOf(...endpoints), true)).kind).toBe('confirmed');
    held.push(rules());
  }
  return held;
}

/** A process that ended while a release was on probation. */
async function leaveOnProbation(release: readonly number[] = [8, 9]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const once = (): Promise<never> => {
    resolve();
    return new Promise(() => undefined);
  };
  const probes: Probes = { policies: [], intervalMs: 1000, once, untilVerdict: async () => [] };
  void (await node.start({}, { probes })).reconciler.put(bundleOf(...release), true);
  await promise;
}

/** The kernel, whose answers a test may spoil. */
function spoilt(spoil: (call: string, text: string) => void): Kernel {
  const over = <T extends object>(target: T, name: string): T =>
    new Proxy(target, {
      get: (_target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (key === 'switch') return over(value as object, 'switch.');
        if (typeof value !== 'function') return value;
        return async (...asked: readonly unknown[]) => {
          spoil(`${name}${String(key)}`, JSON.stringify(asked));
          return (await value.apply(target, asked)) as unknown;
        };
      },
    });
  return over<Kernel>(node.kernel, '');
}

/** A kernel that takes no rules for some endpoints. */
const refusing = (...endpoints: readonly number[]): Kernel =>
  spoilt((call, text) => {
    const refused = endpoints.find((one) => text.includes(`10.244.0.${one + 1}:8080`));
    if (call === 'apply' && refused !== undefined) throw new Error(`it does not take endpoint ${refused}`);
  });

describe.each(['flat', 'tree'] as const)('a halted node after a boot, in layout %s', (layout) => {
  beforeEach(() => {
    node.layout = layout;
  });

  test('loads the newest older rules that the kernel accepts, stays halted, and leaks none of them', async () => {
    const [first, , third] = await put([1, 2], [3, 4], [5, 6]);
    await (await node.start()).journal.halt('the rollback failed');
    node.kernel.reboot();
    expect(await asUsual(await node.start({}, { kernel: refusing(3, 5) }))).toBe(5);
    expect(said.err).toMatch(/^Cannot load generation 3: .*endpoint 5\nCannot load generation 2: .*endpoint 3\n$/);
    expect(said.out).toMatch(/^loaded generation 1 .*\nhalted, manual intervention required: the rollback failed/);
    expect(rules()).toBe(first);
    const { reconciler, journal } = await node.start();
    expect(journal.halted).toBe('the rollback failed');
    expect(await reconciler.rollBackTo(journal.active!)).toMatchObject({ kind: 'confirmed' });
    expect(rules()).toBe(third);
  });

  test('loads the previous generation when the disk has lost the confirmed one', async () => {
    const [first] = await put([1, 2], [3, 4]);
    const { journal } = await node.start();
    await journal.halt('the rollback failed');
    for (const one of ['store', 'copies']) rmSync(`${node.directory}/${one}/${journal.record.current?.manifest}`);
    node.kernel.reboot();
    expect(await asUsual(await node.start())).toBe(5);
    expect(said.out).toContain('generation 1');
    expect(rules()).toBe(first);
  });

  test('says that a node has no Services when no generation with some can be read, and takes the next bundle', async () => {
    await put([1, 2], [3, 4]);
    for (const one of ['store', 'copies']) rmSync(`${node.directory}/${one}`, { recursive: true });
    node.kernel.reboot();
    expect(await asUsual(await node.start())).toBe(5);
    expect(said.err).toContain('Cannot load any generation with Services');
    await put([5, 6]);
    expect(rules()).toContain('10.244.0.6:8080');
  });

  test('keeps the rules that are in the kernel', async () => {
    await put([1, 2], [3, 4]);
    await (await node.start()).journal.halt('the rollback failed');
    node.kernel.load('ipv4', '*nat\n:KUBE-OTHER - [0:0]\nCOMMIT\n');
    const before = rules();
    expect(await asUsual(await node.start())).toBe(5);
    expect(rules()).toBe(before);
  });

  test('loads older rules when the rollback of a release fails', async () => {
    const [first, second] = await put([1, 2], [3, 4]);
    await leaveOnProbation();
    node.kernel.reboot();
    expect(await asUsual(await node.start({}, { kernel: refusing(3) }))).toBe(5);
    expect(said.out).toMatch(/^loaded generation 1 .*\nhalted, manual intervention required: the process ended/);
    expect(rules()).toBe(first);
    const { reconciler, journal } = await node.start();
    expect(await reconciler.rollBackTo(journal.active!)).toMatchObject({ kind: 'confirmed' });
    expect(rules()).toBe(second);
  });
});

/** Two generations, a release on probation and a reboot; then the second one hangs, and the next process finds a kernel that takes it. */
describe.each(['flat', 'tree'] as const)('an open change at boot, in layout %s', (layout) => {
  test.each([
    ['another release', [8, 9]],
    ['a release that is the first one again', [1, 2]],
  ])(
    'leaves the rules before where time is left for one generation only; the next process finishes it: %s',
    async (_name, release) => {
      node.layout = layout;
      const [first, confirmed] = await put([1, 2], [3, 4]);
      await leaveOnProbation(release);
      node.kernel.reboot();
      const { reconciler, journal } = await node.start({}, { kernel: refusing(3) });
      expect(await asUsual({ reconciler, journal }, late())).toBe(4);
      expect(said.out).toMatch(/^loaded generation 1 .*\n$/);
      expect(rules()).toBe(first);
      expect([journal.active?.number, journal.open === undefined, journal.halted]).toEqual([2, false, undefined]);
      const next = await node.start();
      expect(await asUsual(next)).toBe(0);
      expect(rules(), 'nothing else is left').toBe(confirmed);
      const outcome = await next.reconciler.put(bundleOf(...release), false);
      expect(outcome.kind, 'nothing was said against the release').toBe('confirmed');
    },
  );

  test('loads the confirmed rules when the previous generation is refused, and leaks none of it', async () => {
    node.layout = layout;
    const [, confirmed] = await put([1, 2], [3, 4]);
    await leaveOnProbation();
    node.kernel.reboot();
    let fails = limits.bootAttemptsMax;
    const kernel = spoilt((call, text) => {
      const isFirst = text.includes('10.244.0.3:8080');
      if (call === 'apply' && (isFirst || fails-- > 0)) throw new Error('it hangs');
    });
    expect(await asUsual(await node.start({}, { kernel }), late())).toBe(4);
    expect(rules()).toBe(confirmed);
    expect(await asUsual(await node.start())).toBe(0);
    expect(rules()).toBe(confirmed);
  });
});

describe('boot', () => {
  beforeEach(() => {
    node.layout = 'tree';
  });

  test('loads the previous rules on a read-only disk when the kernel refuses the confirmed ones', async () => {
    const [first] = await put([1, 2], [3, 4]);
    const journal = readFileSync(`${node.directory}/journal`, 'latin1');
    node.kernel.reboot();
    expect(await bootFrozen(await node.start({}, { kernel: refusing(3) }), readOnly, inTime(), terminal)).toBe(4);
    expect(said.out).toMatch(/^loaded generation 1 .*\nthe disk takes no write: no new bundle is applied\n$/);
    expect(rules()).toBe(first);
    expect(readFileSync(`${node.directory}/journal`, 'latin1')).toBe(journal);
  });

  test('asks for manual intervention when the kernel refuses all generations', async () => {
    await put([1, 2], [3, 4]);
    node.kernel.reboot();
    expect(await bootFrozen(await node.start({}, { kernel: refusing(1, 3) }), readOnly, inTime(), terminal)).toBe(5);
    expect(said.err).toContain('manual intervention is required');
  });

  test('loads the rules when a tool fails once during a rollback', async () => {
    const [first] = await put([1, 2]);
    await leaveOnProbation();
    node.kernel.reboot();
    let fails = 2;
    const kernel = spoilt((call) => {
      if (/^(observe|switch\.look)$/.test(call) && fails-- > 0) throw new Error('the lock is held');
    });
    const session = await node.start({}, { kernel });
    expect(await asUsual(session)).toBe(0);
    expect(said.err).toContain('first: rolled back');
    expect(session.journal.open).toBeUndefined();
    expect(rules()).toBe(first);
  });

  test('loads the confirmed rules when a rollback fails, and lets the next process finish it', async () => {
    const [, confirmed] = await put([1, 2], [3, 4]);
    await leaveOnProbation();
    node.kernel.reboot();
    const kernel = spoilt((call) => {
      if (call === 'switch.look') throw new Error('ipset is broken');
    });
    const session = await node.start({}, { kernel });
    expect(await asUsual(session)).toBe(4);
    expect(said.err).toContain('Cannot finish the change that was left open: ipset is broken');
    expect(said.out).toMatch(/^loaded generation 2 .*\n$/);
    expect(rules()).toBe(confirmed);
    expect([session.journal.open === undefined, session.journal.halted]).toEqual([false, undefined]);
    const next = await node.start();
    expect(await asUsual(next)).toBe(0);
    expect(next.journal.open).toBeUndefined();
    expect(rules()).toBe(confirmed);
  });

  test('retries the confirmed generation when there is no earlier one', async () => {
    const [first] = await put([1, 2]);
    await leaveOnProbation();
    node.kernel.reboot();
    let fails = limits.bootAttemptsMax;
    const kernel = spoilt((call) => {
      if (call === 'apply' && fails-- > 0) throw new Error('it hangs');
    });
    expect(await asUsual(await node.start({}, { kernel }), late())).toBe(4);
    expect(rules()).toBe(first);
  });

  test.each([
    ['the one before', [[1, 2]], 1],
    ['with none before it, the confirmed one', [], 3],
  ])('still tries one generation after two tools hung: %s', async (_name, older, endpoint) => {
    await put(...older, [3, 4]);
    await leaveOnProbation();
    node.kernel.reboot();
    const [patience, fallbacks] = [new AbortController(), new AbortController()];
    // The clock of this test stands still for `untilVerdict`, which tries again.
    const hangs: Record<string, number> = { observe: 1, apply: limits.bootAttemptsMax };
    let passedMs = 0;
    const hang = (call: string): never => {
      hangs[call]! -= 1;
      passedMs += limits.commandTimeoutMs + limits.commandKillDelayMs;
      if (passedMs > limits.bootPatienceMs) patience.abort();
      if (passedMs > fallbacksMs) fallbacks.abort();
      throw new Error('it hangs');
    };
    const kernel = spoilt((call) => {
      if ((hangs[call] ?? 0) > 0) hang(call);
    });
    const time = { patience: patience.signal, fallbacks: fallbacks.signal, waits };
    expect(await asUsual(await node.start({}, { kernel }), time)).toBe(4);
    expect(fallbacks.signal.aborted).toBe(true);
    expect(rules()).toContain(`10.244.0.${endpoint + 1}:8080`);
  });

  test('tries no second generation when no time is left', async () => {
    await put([1, 2], [3, 4], [5, 6]);
    await leaveOnProbation();
    node.kernel.reboot();
    const session = await node.start({}, { kernel: refusing(3, 5) });
    expect(await asUsual(session, { patience: AbortSignal.abort(), fallbacks: AbortSignal.abort(), waits })).toBe(5);
    expect(said.err).toContain('endpoint 3');
    expect(rules()).not.toContain('10.244.0.2:8080');
    expect(session.journal.halted).toBeUndefined();
  });

  test('loads the last active generation of a lost journal on a read-only disk', async () => {
    const [, second] = await put([1, 2], [3, 4]);
    writeFileSync(`${node.directory}/journal`, 'x'.repeat(2 * slotBytes));
    node.kernel.reboot();
    const refused = await node.start({}, { kernel: refusing(3) });
    expect(await bootFrozen(refused, readOnly, late(), terminal)).toBe(5);
    expect(rules()).not.toContain('10.244.0.2:8080');
    node.kernel.reboot();
    let fails = 1;
    const kernel = spoilt((call) => {
      if (call === 'apply' && fails-- > 0) throw new Error('it fails in passing');
    });
    expect(await bootFrozen(await node.start({}, { kernel }), readOnly, inTime(), terminal)).toBe(5);
    expect(said.out).toMatch(/loaded generation 2 .*\nhalted, manual intervention required: both slots/);
    expect(rules()).toBe(second);
    await expect(bootFrozen(await node.start(), readOnly, inTime(), terminal)).rejects.toThrow(readOnly);
    expect(readFileSync(`${node.directory}/journal`, 'latin1'), 'nothing was written').toMatch(/^x+$/);
  });
});

test('kills a hanging tool before the unit times out', () => {
  const unit = readFileSync(new URL('../../../systemd/sluiced-boot.service', import.meta.url), 'utf8');
  const allowedMs = Number(/^TimeoutStartSec=(\d+)$/m.exec(unit)?.[1]) * 1000;
  const hangMs = limits.commandTimeoutMs + limits.commandKillDelayMs;
  expect(fallbacksMs + hangMs).toBeLessThan(allowedMs);
  const secondHangMs = limits.lockWaitSeconds * 1000 + 2 * hangMs;
  expect(secondHangMs + limits.bootPatienceMs, 'time for an older generation behind two that hang').toBeLessThan(
    allowedMs,
  );
});

describe('a boot with a config that others can write', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-boot-'));
    writeFileSync(
      join(folder, 'config'),
      `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: a\nstate: ${folder}/state\n`,
    );
    chmodSync(join(folder, 'config'), 0o664);
  });
  afterEach(() => rmSync(folder, { recursive: true }));
  const read = (): unknown => bootConfig({ config: join(folder, 'config') }, terminal);

  test.each([
    ['a state directory of its own', 0o700],
    ['none', undefined],
  ])('goes on with %s, and says so', (_title, mode) => {
    if (mode !== undefined) mkdirSync(join(folder, 'state'), { mode });
    expect(read()).toMatchObject({ node: 'a' });
    expect(said.err).toMatch(/^warning: Cannot trust the config: .*\[NODE_CONFIG_UNTRUSTED\]/);
  });

  test('is refused where they can write the state, too', () => {
    mkdirSync(join(folder, 'state'));
    chmodSync(join(folder, 'state'), 0o777);
    expect(read).toThrow(`Cannot trust the state directory ${folder}/state`);
  });
});

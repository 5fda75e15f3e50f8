import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { stateError } from '../../command-error.ts';
import { printRollback } from '../../commands/rollback/rollback.ts';
import { limits } from '../../limits.ts';
import type { Account } from '../../observe/receipts/account.ts';
import { sampleBundle, type SampleServices } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { connectToDaemon } from './ask.ts';
import { Decisions } from './decisions.ts';
import type { Control } from './protocol.ts';
import { rollBack } from './roll-back.ts';
import { makeControl, type StateHolder } from './serve.ts';
import { ControlSocket } from './socket.ts';

describe.each(dataPlanes.filter(({ layout }) => layout === 'tree'))('in mode $mode', ({ layout, mode }) => {
  let node: Scene;
  let state: string;
  let sockets: ControlSocket[];
  beforeEach(() => {
    node = scene();
    node.layout = layout;
    state = mkdtempSync(`${tmpdir()}/slc-`);
    sockets = [];
  });
  afterEach(() => {
    for (const socket of sockets) socket.close();
    node.end();
    rmSync(state, { recursive: true, force: true });
  });

  const bundle = (services: SampleServices) => sampleBundle({ services, mode });
  const one = bundle({ 'shop/web': [1, 2], 'shop/was': [9] });
  const two = bundle({ 'shop/web': [7, 8], 'shop/was': undefined, 'shop/new': [5] });
  /** The names of Services in a plan: the table of mode nftables knows addresses. */
  const names =
    mode === 'nftables' ? { was: '10.96.0.12:80/TCP', new: '10.96.0.13:80/TCP' } : { was: 'shop/was', new: 'shop/new' };
  const endpoints = (): readonly number[] => endpointNumbers(node.kernel);

  async function listen(control: Control): Promise<void> {
    const socket = new ControlSocket(state, control, (why) => expect(why).toBeUndefined());
    sockets.push(socket);
    await socket.refresh();
  }

  /** A process that holds the state directory and has put in both bundles, and a client that reaches it by the socket. */
  async function serving(changes: Partial<StateHolder> = {}) {
    const { reconciler, journal } = await node.start();
    for (const files of [one, two]) expect(await reconciler.put(files, true)).toMatchObject({ kind: 'confirmed' });
    const decisions = new Decisions('node-a', { open: undefined, halted: undefined });
    const reported: Account[] = [];
    const holder: StateHolder = {
      reconciler,
      journal,
      decisions,
      repairs: () => [],
      report: () => null,
      order: (work) => work(),
      ended: async (account) => void reported.push(account),
      ...changes,
    };
    await listen(makeControl(holder));
    const control = await connectToDaemon(state);
    if (!control) throw new Error('nothing listens');
    return { control, reconciler, journal, reported };
  }

  const newest = { endpoints: 'newest', removeAllServices: false } as const;
  const rules = (): string => kernelText(node.kernel);

  describe('a rollback through the socket', () => {
    test('shows the changes, and rolls back to the previous generation with the newest endpoints', async () => {
      const { control, journal, reported } = await serving();
      journal.notes.came(1, 41, journal.record.kept);
      const plan = await control.planRollback(newest);
      expect(plan).toMatchObject({
        from: 2,
        to: { generation: 1, serial: 41, confirmedAt: '1970-01-01T00:00:00.000Z' },
        cancels: null,
        services: { removed: [names.new], restored: [names.was] },
        stale: [],
      });
      const lines = printRollback(plan).split('\n');
      expect(lines[0]).toMatch(
        /^Roll back to generation 1 \(version \w+, release 41, confirmed 1970-01-01T00:00:00\.000Z\)$/,
      );
      expect(lines.slice(1)).toEqual([
        `  1 Service removed: ${names.new}`,
        `  1 Service restored with old endpoints, which may be stale: ${names.was}`,
        expect.stringMatching(/^ {2}\d+ lines of rules change$/),
        '',
      ]);
      expect(endpoints(), 'a plan changes nothing').toContain(5);
      expect(await control.rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: null })).toEqual({
        kind: 'done',
        unwritten: null,
      });
      expect(journal.active).toMatchObject({ number: 1, revision: 1 });
      expect(endpoints()).toContain(7);
      expect(endpoints()).not.toContain(2);
      expect(reported).toEqual([{ outcome: 'chosen', because: 'an operator rolled back to this generation' }]);
    });

    test('with old endpoints does not let early endpoint sync bring the newest ones back', async () => {
      const { control, reconciler, journal } = await serving();
      const { version } = journal.active!;
      await control.rollBack({
        endpoints: 'old',
        removeAllServices: false,
        from: 2,
        to: '1',
        generation: 1,
        cancels: null,
      });
      expect(endpoints()).toContain(2);
      const outcome = await reconciler.put(two, false);
      expect(outcome, 'the version that was left is blocked').toMatchObject({ kind: 'refused' });
      expect(journal.quarantined(version)).toBeDefined();
      expect(endpoints()).toContain(2);
      expect(endpoints()).not.toContain(7);
      await reconciler.put(bundle({ 'shop/web': [4, 5], 'shop/new': [5] }), true);
      expect(endpoints(), 'the next release brings its endpoints').toContain(4);
    });

    test('is refused when another generation is active by now', async () => {
      const { control } = await serving();
      await expect(
        control.rollBack({ ...newest, from: 1, to: '1', generation: 1, cancels: null }),
      ).rejects.toMatchObject({
        problems: [{ code: 'NODE_STATE_INVALID', message: expect.stringContaining('generation 2 is active now') }],
        exitCode: 2,
      });
      await expect(control.rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: 'v9' })).rejects.toThrow(
        'on probation',
      );
      expect(endpoints()).toContain(7);
    });

    test('cancels the release of the plan, also after endpoint updates', async () => {
      const open = { phase: 'open', changeKind: 'release', version: 'v3', to: { number: 3, revision: 0 } };
      const decisions = new Decisions('node-a', { open: open as never, halted: undefined });
      decisions.forget();
      const { control, journal } = await serving({ decisions });
      const { cancels } = await control.planRollback(newest);
      expect(cancels).toMatchObject({ version: 'v3' });
      open.version = 'v3-with-newer-endpoints';
      await control.rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: cancels!.token });
      expect(await decisions.ask()).toEqual({ kind: 'cancel' });
      expect(journal.active).toMatchObject({ number: 1 });
    });

    test('is not shown as a probation itself', async () => {
      const { reconciler, journal } = await serving();
      const decisions = new Decisions('node-a', journal);
      decisions.forget();
      const seen: (readonly [string | undefined, unknown])[] = [];
      const rollBackTo: typeof reconciler.rollBackTo = async (target, options) => {
        const apply = node.kernel.apply.bind(node.kernel);
        node.kernel.apply = async (step) => {
          seen.push([journal.open?.phase, decisions.probation]);
          return apply(step);
        };
        return reconciler.rollBackTo(target, options);
      };
      const ways = { recover: () => reconciler.recover(), refuseRollback: async () => undefined, rollBackTo };
      const holder = { reconciler: ways, journal, decisions };
      const rest = { repairs: () => [], report: () => null, ended: async () => undefined };
      const control = makeControl({ ...holder, ...rest, order: (work) => work() });
      await control.rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: null });
      expect(seen).toContainEqual(['open', undefined]);
      expect(seen.filter(([, probation]) => probation !== undefined)).toEqual([]);
    });

    test('is refused by a process that takes no orders, which continues its release', async () => {
      const open = { phase: 'open', changeKind: 'release', version: 'v3', to: { number: 3, revision: 0 } } as never;
      const decisions = new Decisions('node-a', { open, halted: undefined });
      decisions.forget();
      const order = (): never => {
        throw stateError('busy', 'wait');
      };
      const { control } = await serving({ decisions, order });
      await expect(
        control.rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: decisions.probation!.token }),
      ).rejects.toThrow('busy');
      expect(await decisions.ask(), 'nothing is cancelled').toBeUndefined();
    });

    test('targets the previous generation during an endpoint update', async () => {
      const { control, journal } = await serving();
      const { state: same } = journal.active!;
      const flows = { old: [], fresh: [] };
      await journal.begin({
        changeKind: 'endpoints',
        flip: 'ordered',
        version: 'v',
        state: same,
        sysctls: new Map(),
        flows,
      });
      expect(await control.planRollback(newest)).toMatchObject({ from: 2, to: { generation: 1 } });
      await journal.halt('the old endpoints cannot be loaded');
      expect(await control.planRollback(newest), 'a halted node').toMatchObject({ to: { generation: 2 } });
    });

    test('blocks the active version, too, where a process ended with a release on probation', async () => {
      const { journal: before } = await serving();
      const { state: same, version } = before.active!;
      const flows = { old: [], fresh: [] };
      await before.begin({
        changeKind: 'release',
        flip: 'ordered',
        version: 'v3',
        state: same,
        sysctls: new Map(),
        flows,
      });
      const next = await node.start();
      await rollBack({ ...newest, from: 2, to: '1', generation: 1, cancels: null }, next);
      expect(Object.keys(next.journal.record.quarantined).toSorted()).toEqual(['v3', version].toSorted());
      expect(await next.reconciler.put(two, false)).toMatchObject({ kind: 'refused' });
    });

    test('targets the previously active generation, not one that was skipped', async () => {
      const { control, reconciler } = await serving();
      const next = (n: number) => reconciler.put(bundle({ [`shop/s${n}`]: [n, n + 20] }), true);
      await next(3);
      await control.rollBack({ ...newest, from: 3, to: '1', generation: 1, cancels: null });
      await next(4);
      expect(await control.planRollback(newest)).toMatchObject({ from: 4, to: { generation: 1 } });
    });

    test('reaches generation 0 only with --remove-all-services', async () => {
      const { control } = await serving();
      await expect(control.planRollback({ ...newest, to: '0' })).rejects.toThrow('removes the rules of every Service');
      expect(await control.planRollback({ ...newest, to: '0', removeAllServices: true })).toMatchObject({
        to: { generation: 0 },
        endpoints: 'old',
      });
    });

    test.each(['7', 'nope', 'ffffffff', '__proto__'])('to %s is refused: there is no such generation', async (to) => {
      const { control } = await serving();
      await expect(control.planRollback({ ...newest, to })).rejects.toThrow(`Cannot roll back to ${to}`);
    });
  });

  test('lifts a quarantine between two changes, and refuses what is not quarantined', async () => {
    const { control, journal } = await serving();
    await journal.halt('a test');
    await control.rollBack({
      endpoints: 'old',
      removeAllServices: false,
      from: 2,
      to: '1',
      generation: 1,
      cancels: null,
    });
    const [version = ''] = Object.keys(journal.record.quarantined);
    await expect(control.liftQuarantine({ name: 'shop/web' })).rejects.toThrow(
      'Cannot lift the quarantine of shop/web: it is not quarantined',
    );
    expect(await control.liftQuarantine({ name: version })).toEqual({ name: version });
    expect((await node.start()).journal.quarantined(version)).toBeUndefined();
  });

  describe('a checkpoint', () => {
    test('is kept beyond ten generations, and is a rollback target by name', async () => {
      const { control, reconciler, journal } = await serving();
      expect(await control.checkpoint({ name: 'before-1.31' })).toMatchObject({ generation: { number: 2 } });
      for (let n = 10; n < 12 + limits.generationsKept; n++)
        await reconciler.put(bundle({ 'shop/web': [n, n + 20] }), true);
      expect(await journal.generation(2), 'is not kept by itself any more').toBeUndefined();
      const plan = await control.planRollback({ endpoints: 'old', removeAllServices: false, to: 'before-1.31' });
      expect(plan).toMatchObject({ to: { generation: 2 }, services: { restored: [names.new] } });
      const from = journal.active!.number;
      await control.rollBack({
        endpoints: 'old',
        removeAllServices: false,
        from,
        to: 'before-1.31',
        generation: 2,
        cancels: null,
      });
      expect(endpoints()).toContain(8);
      const next = await node.start();
      expect(next.journal.active).toMatchObject({ number: 2 });
      expect(await next.reconciler.repair()).toBe(0);
      expect(await control.removeCheckpoint({ name: 'before-1.31' })).toMatchObject({ name: 'before-1.31' });
      await expect(control.removeCheckpoint({ name: 'before-1.31' })).rejects.toThrow('no such checkpoint');
    });

    test('is refused as target when its name moved between plan and order', async () => {
      const { control, journal } = await serving();
      await control.checkpoint({ name: 'good' });
      const plan = await control.planRollback({ ...newest, to: 'good' });
      expect(plan).toMatchObject({ from: 2, to: { generation: 2 } });
      await control.removeCheckpoint({ name: 'good' });
      journal.notes.pin({ name: 'good', at: '', generation: journal.record.kept.find(({ number }) => number === 1)! });
      const order = { ...newest, from: 2, to: 'good', generation: plan.to.generation, cancels: null };
      await expect(control.rollBack(order)).rejects.toThrow('good is generation 1 now, not 2');
      expect(journal.active).toMatchObject({ number: 2 });
    });

    test('is refused as target after a cleanup', async () => {
      const { control, reconciler, journal } = await serving();
      await control.checkpoint({ name: 'good' });
      await reconciler.cleanup();
      const before = rules();
      await expect(control.planRollback({ ...newest, to: 'good' })).rejects.toThrow(
        'no generation of Sluice is active',
      );
      const order = { ...newest, from: null, to: 'good', generation: 2, cancels: null };
      await expect(control.rollBack(order)).rejects.toThrow('no generation of Sluice is active');
      expect(rules()).toBe(before);
      await reconciler.put(one, true);
      expect(await control.planRollback({ ...newest, to: 'good' })).toMatchObject({ to: { generation: 2 } });
      expect(journal.record.kept[0], 'the way out').toMatchObject({ number: 0 });
    });

    test.each(['', '7', 'Upper', 'a b', '../x', 'deadbeef', '__proto__', 'x'.repeat(64)])(
      'is not called %j',
      async (name) => {
        const { control } = await serving();
        await expect(control.checkpoint({ name })).rejects.toThrow('the name is not valid');
      },
    );

    test('is never replaced, and limited to 16', async () => {
      const { control } = await serving();
      for (let n = 0; n < limits.checkpointsMax; n++) await control.checkpoint({ name: `c${n}` });
      await expect(control.checkpoint({ name: 'c3' })).rejects.toThrow('it already exists');
      await expect(control.checkpoint({ name: 'more' })).rejects.toThrow('the limit of 16 checkpoints');
    });
  });
});

// @module-tag test
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { DiskJournal } from '../../packages/applier/src/state/journal.ts';
import {
  sampleBundle,
  sampleNode,
  type SampleServices,
  writeBundle,
} from '../../packages/applier/src/testing/bundle.fixture.ts';
import { slotBytes } from '../../packages/applier/src/state/slots.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { plainPlanes, type SluicedNode, until } from './sluiced-node.ts';

/** `sluiced boot` on the real kernel: the rules of a node before anything else runs. */

withNode();

describe.each(oneInTurn(plainPlanes, 'boot'))('after a boot, on $backend, mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  const forget = (): Promise<void> => node.forgetRules(backend);
  const bundleOf = (services: SampleServices): ReadonlyMap<string, string> => sampleBundle({ services, mode });
  /** Mounts a tool over that of the system which refuses the rules, or elements, of one endpoint. */
  const refuseEndpoint = (endpoint: number): string => {
    const tools = `${node.directory}/tools`;
    mkdirSync(tools);
    const payload = `${node.directory}/payload`;
    const fail = 'echo refused on purpose >&2; exit 1';
    const script = (refused: string, real: string): string =>
      `cat >${payload}\nif grep -q '${refused}' ${payload}; then ${fail}; fi\nexec ${real} "$@" <${payload}\n`;
    const write = (name: string, text: string): void =>
      writeFileSync(`${tools}/${name}`, `#!/bin/sh\n${text}`, { mode: 0o755 });
    if (mode === 'nftables') {
      copyFileSync('/usr/sbin/nft', `${tools}/nft-real`);
      write('nft', `[ "$*" = "-f -" ] || exec nft-real "$@"\n${script(`10.244.0.${endpoint} . 8080`, 'nft-real')}`);
    } else {
      const restore = `iptables-${backend}-restore`;
      write(restore, script(`10.244.0.${endpoint}:8080`, `xtables-${backend}-multi ${restore}`));
    }
    return `mount -t overlay overlay -o lowerdir=${tools}:/usr/sbin /usr/sbin &&`;
  };
  const put = async (endpoint: number): Promise<string> => {
    // Two endpoints replaced at once are a release; one would be an endpoint update.
    writeBundle(`${node.directory}/rendered`, bundleOf({ 'shop/web': [endpoint, endpoint + 100] }));
    expect((await node.apply()).exitCode).toBe(0);
    return node.forwarding(plane);
  };

  test('restores the confirmed rules; with a damaged generation, those of the previous one', async () => {
    node.writeConfig(backend);
    expect(await node.sluiced('boot')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('nothing to load'),
    });
    const first = await put(1);
    const second = await put(2);
    await forget();
    expect((await node.sluiced('boot')).exitCode).toBe(0);
    expect(await node.forwarding(plane)).toBe(second);
    await forget();
    const manifest = node.journal()?.current?.manifest;
    const damage = (directory: string): void =>
      writeFileSync(`${node.directory}/state/${directory}/${manifest}`, 'damaged');
    damage('store');
    expect((await node.sluiced('boot')).exitCode, 'from the copy').toBe(0);
    expect(await node.forwarding(plane)).toBe(second);
    expect((await node.sluiced('status')).stdout).toMatch(new RegExp(`damaged +store/${manifest} .*written again`));
    await forget();
    damage('store');
    damage('copies');
    expect(await node.sluiced('boot')).toMatchObject({
      exitCode: 4,
      stdout: expect.stringContaining('generation 1'),
      stderr: expect.stringContaining('generation 2 cannot be read'),
    });
    expect(await node.forwarding(plane)).toBe(first);
  });

  test('restores the confirmed rules, and nothing of a release on probation, from a read-only disk', {
    timeout: 120_000,
  }, async () => {
    node.writeConfig(backend);
    const confirmed = await put(1);
    await forget();
    const state = `${node.directory}/state`;
    // As when the disk failed in the middle of a write.
    writeFileSync(`${state}/store/half.tmp`, 'half');
    const readOnly = `mount --bind ${state} ${state} && mount -o remount,bind,ro ${state} &&`;
    const inPlace = {
      exitCode: 4,
      stdout: expect.stringContaining('generation 1'),
      stderr: expect.stringContaining('Remount its file system read-write'),
    };
    expect(await node.sluicedAfter(readOnly, 'boot')).toMatchObject(inPlace);
    expect(await node.forwarding(plane)).toBe(confirmed);
    node.writeConfig(backend, 'probation: {seconds: 600}\nprobes: [{name: good, exec: [/bin/true]}]\n');
    writeBundle(`${node.directory}/rendered`, bundleOf({ 'shop/web': [1, 101], 'shop/other': [5] }));
    const daemon = node.start();
    await until(
      'the release is on probation',
      async () => (await node.endpoints(plane)).includes('10.244.0.6:8080'),
      30_000,
    );
    await node.kill(daemon);
    expect(await node.sluicedAfter(readOnly, 'boot'), 'as after a boot').toMatchObject(inPlace);
    expect(await node.forwarding(plane)).toBe(confirmed);
    expect(node.journal()?.open).not.toBeNull();
    expect((await node.sluiced('boot')).stderr).toContain('rolled back');
    expect(node.journal()?.open).toBeNull();
    expect(await node.forwarding(plane)).toBe(confirmed);
  });

  test('restores the confirmed rules of a halted node, which stays halted', async () => {
    node.writeConfig(backend);
    const confirmed = await put(1);
    const journal = DiskJournal.open(`${node.directory}/state`, sampleNode, () => new Date());
    await journal.halt('manual intervention required');
    await forget();
    expect(await node.sluiced('boot')).toMatchObject({
      exitCode: 5,
      stdout: expect.stringMatching(/^loaded generation 1 .*\nhalted, manual intervention required/),
    });
    expect(await node.forwarding(plane)).toBe(confirmed);
    expect(await node.apply()).toMatchObject({ exitCode: 5 });
    await forget();
    const state = `${node.directory}/state`;
    const readOnly = `mount --bind ${state} ${state} && mount -o remount,bind,ro ${state} &&`;
    expect(await node.sluicedAfter(readOnly, 'boot'), 'on a read-only disk').toMatchObject({
      exitCode: 5,
      stdout: expect.stringMatching(/^loaded generation 1 .*\nhalted, manual intervention required/),
      stderr: expect.stringContaining('Remount its file system read-write'),
    });
    expect(await node.forwarding(plane)).toBe(confirmed);
    for (const one of ['store', 'copies'])
      writeFileSync(`${state}/${one}/${node.journal()?.current?.manifest}`, 'damaged');
    expect(await node.sluiced('cleanup')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('generation 1 cannot be read'),
    });
    expect(await node.forwarding(plane)).toBe(confirmed);
  });

  test('restores the previous rules of a halted node whose kernel refuses the confirmed ones; it stays halted', async () => {
    node.writeConfig(backend);
    const first = await put(1);
    const second = await put(2);
    await DiskJournal.open(`${node.directory}/state`, sampleNode, () => new Date()).halt(
      'manual intervention required',
    );
    await forget();
    expect(await node.sluicedAfter(refuseEndpoint(3), 'boot')).toMatchObject({
      exitCode: 5,
      stdout: expect.stringMatching(/^loaded generation 1 .*\nhalted, manual intervention required/),
      stderr: expect.stringMatching(/ Cannot load generation 2: .*refused on purpose/),
    });
    expect(await node.forwarding(plane)).toBe(first);
    expect(await node.apply()).toMatchObject({ exitCode: 5 });
    expect(await node.sluiced('rollback', '2', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await node.forwarding(plane)).toBe(second);
  });

  test('leaves nothing of a release on probation that the disk has lost, nor after a cleanup', {
    timeout: 120_000,
  }, async () => {
    node.writeConfig(backend, 'layout: tree\nprobation: {seconds: 600}\nprobes: [{name: good, exec: [/bin/true]}]\n');
    const bare = await node.forwarding(plane);
    writeBundle(`${node.directory}/rendered`, bundleOf({ 'shop/web': [1, 101] }));
    const daemon = node.start();
    await until('the first release is on probation', async () => node.journal()?.open, 30_000);
    await until('it is confirmed', async () => (await node.sluiced('confirm')).exitCode === 0, 30_000);
    await until('it is active', async () => node.journal()?.current?.number === 1 && !node.journal()?.open, 30_000);
    const confirmed = await node.forwarding(plane);
    const lose = async (by: ReturnType<SluicedNode['start']>): Promise<void> => {
      writeBundle(`${node.directory}/rendered`, bundleOf({ 'shop/web': [1, 101], 'shop/other': [5] }));
      await until(
        'the release is on probation',
        async () => (await node.endpoints(plane)).includes('10.244.0.6:8080'),
        30_000,
      );
      await node.kill(by);
      rmSync(`${node.directory}/state/store/${node.journal()?.open?.to.manifest}`);
    };
    await lose(daemon);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('rolled back') });
    expect(await node.forwarding(plane)).toBe(confirmed);
    await lose(node.start());
    expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    expect(await node.forwarding(plane)).toBe(bare);
  });

  test.each([
    [
      'both slots of the journal damaged',
      /both slots/,
      (file: string) => writeFileSync(file, 'x'.repeat(2 * slotBytes)),
    ],
    ['the journal deleted', /is missing, but the store has programs/, (file: string) => rmSync(file, { force: true })],
  ] as const)(
    'with %s, keeps what the kernel holds, restores what was confirmed after a boot, and otherwise halts',
    async (_title, why, lose) => {
      node.writeConfig(backend);
      await put(1);
      const second = await put(2);
      const damage = (): void => lose(`${node.directory}/state/journal`);
      damage();
      expect(await node.apply()).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('generation 2, the one in the kernel, is active'),
      });
      expect(await node.forwarding(plane)).toBe(second);
      damage();
      await forget();
      expect(await node.sluiced('boot')).toMatchObject({
        exitCode: 4,
        stderr: expect.stringContaining('generation 2, the last confirmed one, is active'),
      });
      expect(await node.forwarding(plane)).toBe(second);
      damage();
      await forget();
      const state = `${node.directory}/state`;
      const readOnly = `mount --bind ${state} ${state} && mount -o remount,bind,ro ${state} &&`;
      expect(await node.sluicedAfter(readOnly, 'boot'), 'on a read-only disk').toMatchObject({
        exitCode: 5,
        stdout: expect.stringMatching(
          new RegExp(`^loaded generation 2 .*\nhalted, manual intervention required: .*${why.source}`),
        ),
        stderr: expect.stringContaining('Remount its file system read-write'),
      });
      expect(await node.forwarding(plane)).toBe(second);
      expect(await node.sluicedAfter(readOnly, 'boot'), 'while the kernel holds rules').toMatchObject({ exitCode: 3 });
      expect(await node.forwarding(plane)).toBe(second);
      const flush = {
        iptables: [`iptables-${backend}`, '-t', 'nat', '-F', 'SLUICE-SERVICES'],
        nftables: ['nft', 'flush', 'map', 'inet', 'sluice', 'svc4'],
      };
      await node.tool(flush[mode]);
      const broken = await node.forwarding(plane);
      expect(await node.sluiced('boot')).toMatchObject({ exitCode: 5 });
      expect(await node.apply()).toMatchObject({ exitCode: 5 });
      expect(await node.forwarding(plane)).toBe(broken);
    },
  );
});

// @module-tag quick
import { rmSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { dataPlanes, foreign, SluicedNode, webIn } from './sluiced-node.ts';

/** `sluiced apply`, `rollback` and `cleanup` on the real kernel, in a network namespace with a /run of its own. */

let node: SluicedNode;
let directory: string;

beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  ({ directory } = node);
});
afterEach(() => node.remove());

const chosen = dataPlanes.filter(({ mode }) => mode === 'iptables').slice(0, atTier({ quick: 1, test: 2, all: 4 }));
const nftables = dataPlanes.filter(({ mode }) => mode === 'nftables');

describe.each([...chosen, ...nftables])(
  'sluiced on $backend in layout $layout, mode $mode',
  ({ backend, layout, mode }) => {
    /** The rules of all programs, and what the table of mode nftables serves. */
    const everything = async (): Promise<string> => `${await node.rules(backend)}${await node.frontends()}`;
    const flushed = layout === 'tree' ? 'SLUICE-SERVICES' : 'KUBE-SERVICES';
    const flush = {
      iptables: [`iptables-${backend}`, '-t', 'nat', '-F', flushed],
      nftables: ['nft', 'flush', 'map', 'inet', 'sluice', 'svc4'],
    };
    const writeConfig = (more = ''): void => node.writeConfig(backend, `layout: ${layout}\n${more}`);
    beforeEach((context) => needBackend(context, backend));

    test('applies, repairs, rolls back and cleans up; foreign rules stay byte for byte', async () => {
      writeConfig();
      await node.tool([`iptables-${backend}-restore`, '--noflush'], foreign);
      const before = await everything();
      writeBundle(`${directory}/rendered`, webIn(mode, 1, 2));
      const apply = (...more: string[]): ReturnType<typeof node.sluiced> =>
        node.sluiced('apply', `${directory}/rendered`, ...more);
      expect((await apply('--dry-run')).exitCode).toBe(1);
      expect(await everything()).toBe(before);
      expect(await apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
      expect((await apply('--dry-run')).exitCode).toBe(0);
      const good = await everything();
      await node.tool(flush[mode]);
      expect((await apply()).exitCode).toBe(0);
      expect(await everything()).toBe(good);
      expect(await node.sluiced('rollback', '0', '--yes')).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining('--remove-all-services'),
      });
      expect(await everything()).toBe(good);
      expect((await node.sluiced('rollback', '0', '--remove-all-services', '--yes')).exitCode).toBe(0);
      expect(await everything()).toBe(before);
      expect((await apply()).exitCode).toBe(0);
      expect((await node.sluiced('cleanup')).exitCode).toBe(0);
      expect(await everything()).toBe(before);
    });

    test('status compares the kernel, and exits with 1 when it differs', async () => {
      writeConfig();
      writeBundle(`${directory}/rendered`, webIn(mode, 1, 2));
      expect(await node.sluiced('status')).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('not compared'),
      });
      expect((await node.apply()).exitCode).toBe(0);
      const good = await node.sluiced('status');
      expect(good).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('kernel      holds the confirmed') });
      const rules = await everything();
      await node.tool(flush[mode]);
      const broken = await everything();
      expect(broken).not.toBe(rules);
      const bad = await node.sluiced('status', '-o', 'json');
      const { kernel } = JSON.parse(bad.stdout) as { readonly kernel: object };
      expect([bad.exitCode, kernel]).toEqual([
        1,
        { holds: false, differences: [expect.stringMatching(mode === 'nftables' ? /^nft: / : /^ipv4 nat: /)] },
      ]);
      expect(await everything(), 'status changes nothing').toBe(broken);
      expect((await node.apply()).exitCode).toBe(0);
      expect((await node.sluiced('status')).exitCode).toBe(0);
      for (const copy of ['store', 'copies']) rmSync(`${directory}/state/${copy}`, { recursive: true });
      expect((await node.sluiced('status')).stdout, 'the active generation cannot be read').toContain(
        'kernel      not compared: ',
      );
    });

    test('a refused command changes nothing', async () => {
      writeConfig();
      writeBundle(`${directory}/rendered`, webIn(mode, 1, 2));
      const refused = await node.apply('--node', 'nope');
      expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('It has node-a') });
      expect(node.journal()).toBeUndefined();
      expect(await node.apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
      expect(node.journal()).toMatchObject({ node: 'node-a', backend });
    });

    test('rolls back and exits with 4 when a probe fails after the change', async () => {
      writeConfig(
        `probes:\n  - {name: flag, exec: [/usr/bin/test, -e, ${directory}/healthy], attempts: 2, intervalSeconds: 0.1}\n`,
      );
      writeFileSync(`${directory}/healthy`, '');
      writeBundle(`${directory}/rendered`, webIn(mode, 1, 2));
      const args = ['apply', `${directory}/rendered`];
      expect((await node.sluiced(...args)).exitCode).toBe(0);
      const good = await everything();
      writeConfig(
        `probes:\n  - {name: flag, exec: [/bin/sh, -c, "rm ${directory}/healthy"], attempts: 2, intervalSeconds: 0.1}\n`,
      );
      writeBundle(`${directory}/rendered`, webIn(mode, 3));
      expect((await node.sluiced(...args)).exitCode).toBe(4);
      expect(await everything()).toBe(good);
    });
  },
);

// @module-tag test
import { rmSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { plainPlanes, until } from './sluiced-node.ts';
import { confirmFirst, missedDuring } from './sluiced-probation.ts';

/** A node that lost its state directory while it serves. */

withNode();

describe.each(oneInTurn(plainPlanes, 'recover'))('on $backend, mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  test('continues from the rules in the kernel, and clients are served all the time', {
    timeout: 150_000,
  }, async () => {
    await confirmFirst(node, plane);
    const good = await node.forwarding(plane);
    node.writeConfig('auto');
    const missed = await missedDuring(node, async () => {
      rmSync(`${node.directory}/state`, { recursive: true });
      expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('sluiced recover') });
      const checked = await node.sluiced('preflight', `${node.directory}/rendered`);
      expect(checked).toMatchObject({ exitCode: 3, stdout: expect.stringContaining('run `sluiced recover`') });
      expect(checked.stdout).not.toMatch(/stop kube-proxy|takeOver|delete/);
      expect(await node.sluiced('recover')).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('none was changed'),
      });
      expect(await node.forwarding(plane)).toBe(good);
      expect(await node.sluiced('recover'), 'once').toMatchObject({ exitCode: 2 });
      expect((await node.sluiced('status')).stdout).toContain('holds the confirmed rules');
      expect((await node.sluiced('preflight', `${node.directory}/rendered`)).stdout).not.toContain('recover');
      node.start();
      await until(
        'the daemon has recognised the bundle',
        async () => node.journal()?.current?.version !== 'recognised',
      );
      await until('no transaction is open', async () => node.journal()?.open === null);
      expect(await node.forwarding(plane)).toBe(good);
    });
    expect(missed).toBe(0);
  });
});

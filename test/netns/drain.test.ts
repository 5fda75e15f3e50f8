// @module-tag all
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { balancer, type BalancerSight } from './balancer.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { plainPlanes, until } from './sluiced-node.ts';
import { confirmFirst } from './sluiced-probation.ts';

/** A node that is taken out by plan, and a load balancer that follows its health port. */

withNode();

describe.each(plainPlanes.filter(({ backend }) => backend === 'nft'))('in mode $mode', (plane) => {
  const path = (): string => `${node.directory}/seen.json`;
  const seen = (): BalancerSight => JSON.parse(readFileSync(path(), 'utf8')) as BalancerSight;

  async function start(): Promise<ChildProcess> {
    await confirmFirst(node, plane);
    node.writeConfig(plane.backend, 'healthzBindAddress: 127.0.0.1:10256\n');
    const daemon = node.start();
    writeFileSync(path(), JSON.stringify({ isIn: false }));
    writeFileSync(`${node.directory}/balancer.cjs`, balancer(path()));
    node.startProgram([process.execPath, `${node.directory}/balancer.cjs`]);
    await until('the balancer sends to the node', async () => seen().sent > 20);
    return daemon;
  }

  /** As the end of a node: nothing answers, and no rule is left. */
  async function end(daemon: ChildProcess): Promise<void> {
    const flush = plane.mode === 'nftables' ? 'nft delete table inet sluice' : 'iptables-nft -t nat -F';
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    // Together: on a busy machine the balancer would see the end of the port before that of the rules.
    await node.tool(['sh', '-c', `kill -9 ${daemon.pid}; ${flush}`]);
    await ended;
    const { sent } = seen();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(seen().sent).toBeGreaterThanOrEqual(sent);
  }

  test('a drained node loses no connection when it ends, and lives on until then', {
    timeout: 120_000,
  }, async (context) => {
    needBackend(context, plane.backend);
    const daemon = await start();
    const told = await node.sluiced('drain', '--wait', '--for', '10m');
    expect(told).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^drained until 2/) });
    await until('the balancer sends elsewhere', async () => !seen().isIn);
    expect(
      await node.tool(['curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', 'http://127.0.0.1:10256/livez']),
    ).toBe('200');
    expect((await node.sluiced('status')).stdout).toMatch(/^draining +load balancers are told .*\(operator\), until /m);
    expect(await node.tool(['curl', '-s', 'http://127.0.0.1:10276/metrics'])).toMatch(/^sluice_draining 1$/m);
    const { kept } = seen();
    await until('the connection from before goes on', async () => seen().kept > kept + 5);
    expect(await node.tool(['curl', '-s', '-m', '2', 'http://10.96.0.11/']), 'rules live on').toBe('1');
    await end(daemon);
    expect({ lost: seen().lost }).toEqual({ lost: 0 });
  });

  test('one that is not drained loses some, and undrain brings the balancer back', {
    timeout: 120_000,
  }, async (context) => {
    needBackend(context, plane.backend);
    const daemon = await start();
    expect(await node.sluiced('drain')).toMatchObject({ exitCode: 0 });
    await until('the balancer sends elsewhere', async () => !seen().isIn);
    expect(await node.sluiced('undrain')).toMatchObject({ exitCode: 0 });
    await until('it comes back', async () => seen().isIn);
    expect(seen()).toMatchObject({ lost: 0, cut: 0 });
    await end(daemon);
    expect(seen().lost).toBeGreaterThan(0);
  });
});

test('without a daemon there is nothing to drain', { timeout: 30_000 }, async () => {
  node.writeConfig('nft');
  expect(await node.sluiced('drain')).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('no sluiced answers'),
  });
});

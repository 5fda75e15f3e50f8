// @module-tag all
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { plainPlanes, SluicedNode, until } from './sluiced-node.ts';
import { confirmFirst } from './sluiced-probation.ts';

/** A node that is taken out by plan, and a load balancer that follows its health port. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/**
 * Takes the node out of service after two failed health checks, one each 200 ms, and else sends a new connection every 20 ms. Beside that one
 * connection from before goes on. Writes what came of it.
 */
const balancer = (path: string): string => `
  const { get, Agent } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  const seen = { isIn: false, sent: 0, lost: 0, kept: 0, cut: 0 };
  let failed = 0;
  const ask = (url, agent, done) => {
    const one = get(url, { agent, timeout: 1000 }, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode === 200));
    });
    one.on('timeout', () => one.destroy());
    one.on('error', () => done(false));
  };
  setInterval(() => ask('http://127.0.0.1:10256/healthz', false, (isGood) => {
    failed = isGood ? 0 : failed + 1;
    seen.isIn = isGood || (seen.isIn && failed < 2);
  }), 200);
  setInterval(() => seen.isIn && ask('http://10.96.0.11/', false, (isGood) => { seen.sent++; if (!isGood) seen.lost++; }), 20);
  const long = new Agent({ keepAlive: true, maxSockets: 1 });
  setInterval(() => ask('http://10.96.0.11/', long, (isGood) => { if (isGood) seen.kept++; else seen.cut++; }), 100);
  setInterval(() => { writeFileSync('${path}.new', JSON.stringify(seen)); renameSync('${path}.new', '${path}'); }, 50);
`;

interface Seen {
  readonly isIn: boolean;
  readonly sent: number;
  readonly lost: number;
  readonly kept: number;
  readonly cut: number;
}

describe.each(plainPlanes.filter(({ backend }) => backend === 'nft'))('in mode $mode', (plane) => {
  const path = (): string => `${node.directory}/seen.json`;
  const seen = (): Seen => JSON.parse(readFileSync(path(), 'utf8')) as Seen;

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
    await node.kill(daemon);
    await node.tool(['sh', '-c', flush]);
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

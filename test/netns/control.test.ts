// @module-tag test
import { rmSync } from 'node:fs';
import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, type SampleServices, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { modesOnNft, until } from './sluiced-node.ts';
import { reached, startProbation } from './sluiced-probation.ts';

/** Commands of an operator to a running daemon, through its socket. */

withNode();

describe.each(oneInTurn(modesOnNft, 'control'))('in mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  /** The names of Services in a plan: the table of mode nftables knows addresses. */
  const names =
    mode === 'nftables' ? { was: '10.96.0.12:80/TCP', new: '10.96.0.13:80/TCP' } : { was: 'shop/was', new: 'shop/new' };

  /** Services of the previous bundle may be removed. */
  function publish(services: SampleServices): void {
    rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode }));
  }

  /** The active generation of the daemon's journal, once nothing is open. */
  const active = (number: number) => async (): Promise<boolean> => {
    const record = node.journal();
    return record?.open === null && record.current?.number === number;
  };

  /** Starts the daemon on release 1, then publishes release 2. */
  async function startOnSecond(): Promise<void> {
    node.writeConfig('nft');
    publish({ 'shop/web': [1, 2], 'shop/was': [9] });
    node.start();
    await until('release 1 is confirmed', active(1));
    publish({ 'shop/web': [7, 8], 'shop/was': undefined, 'shop/new': [5] });
    await until('release 2 is confirmed', active(2));
  }

  /** Long enough for two scans and their changes. */
  const scans = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 2_500));

  describe('a rollback with the daemon at work', { timeout: 60_000 }, () => {
    test('does not prompt without a terminal and changes nothing; with --yes it restores the previous generation, which stays', async (context) => {
      needBackend(context, 'nft');
      await startOnSecond();
      const before = await node.forwarding(plane);
      expect(await node.sluiced('rollback')).toMatchObject({
        exitCode: 2,
        stdout: expect.stringContaining(`1 Service removed: ${names.new}`),
        stderr: expect.stringContaining('ANSWER_MISSING'),
      });
      expect(await node.sluiced('rollback', '--dry-run')).toMatchObject({ exitCode: 1 });
      expect(await node.forwarding(plane)).toBe(before);
      const result = await node.sluiced('rollback', '--yes', '-o', 'json');
      expect(result).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(`1 Service removed: ${names.new}`) });
      expect(JSON.parse(result.stdout)).toMatchObject({
        kind: 'Rollback',
        plan: { from: 2, to: { generation: 1 }, services: { removed: [names.new], restored: [names.was] } },
        ending: { kind: 'done', unwritten: null },
      });
      await scans();
      const rules = await node.endpoints(plane);
      expect(rules, 'the newest endpoints').toContain('10.244.0.8:8080');
      expect(rules, 'the removed endpoints').toContain('10.244.0.10:8080');
      expect(rules, 'the new endpoints').not.toContain('10.244.0.6:8080');
      expect(await node.sluiced('status')).toMatchObject({
        stdout: expect.stringMatching(/generation {2}1, .*\n[^]*quarantined \w+: rolled back manually/),
      });
    });

    test('--endpoints old keeps them until the endpoints change again', async (context) => {
      needBackend(context, 'nft');
      await startOnSecond();
      expect(await node.sluiced('rollback', '--endpoints', 'old', '--yes')).toMatchObject({ exitCode: 0 });
      await scans();
      const rules = await node.endpoints(plane);
      expect(rules).toContain('10.244.0.3:8080');
      expect(rules).not.toContain('10.244.0.8:8080');
      publish({ 'shop/web': [1], 'shop/was': undefined, 'shop/new': [5] });
      await until('the change is applied', async () => !(await node.endpoints(plane)).includes('10.244.0.3:8080'));
    });

    test('cancels the release on probation first', async (context) => {
      needBackend(context, 'nft');
      await startProbation(node, plane);
      const { stdout } = await node.sluiced('status');
      const token = /token ([0-9a-f]{8})/.exec(stdout)?.[1];
      expect(token).toBeDefined();
      expect(await node.sluiced('confirm', '--token', 'ffffffff')).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining('the token belongs to another probation'),
      });
      expect(await reached(node)).toBe('2');
      expect(await node.sluiced('rollback', '--yes')).toMatchObject({
        exitCode: 0,
        stdout: expect.stringMatching(/on probation, is cancelled first\n[^]*Rolled back to generation 1 /),
      });
      expect(await reached(node)).toBe('1');
      await scans();
      expect(await reached(node)).toBe('1');
      expect(Object.keys(node.journal()?.quarantined ?? {}), 'the cancelled version is blocked').toHaveLength(1);
    });

    test('rolls back to a checkpoint by its name', async (context) => {
      needBackend(context, 'nft');
      await startOnSecond();
      const checkpoint = await node.sluiced('checkpoint', 'good');
      expect(checkpoint).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('kept: good  generation 2') });
      publish({ 'shop/web': [1, 2] });
      await until('release 3 is confirmed', active(3));
      expect(await node.sluiced('rollback', 'good', '--yes')).toMatchObject({ exitCode: 0 });
      await scans();
      expect(await node.endpoints(plane)).toContain('10.244.0.6:8080');
      expect(await node.sluiced('checkpoint', '-o', 'json')).toMatchObject({
        stdout: expect.stringContaining('"good"'),
      });
    });
  });

  test('confirm accepts the token of the probation in progress', { timeout: 60_000 }, async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, plane, ', confirm: manual');
    const { probation } = JSON.parse((await node.sluiced('status', '-o', 'json')).stdout) as {
      readonly probation: { readonly token: string };
    };
    expect(await node.sluiced('confirm', '--token', probation.token, '-o', 'json')).toMatchObject({ exitCode: 0 });
    await until('it is confirmed', active(2));
    expect(JSON.parse((await node.sluiced('status', '-o', 'json')).stdout)).toMatchObject({ probation: null });
  });

  test('`sluiced apply` accepts confirm, cancel and extend, and refuses other commands', {
    timeout: 60_000,
  }, async (context) => {
    needBackend(context, 'nft');
    node.writeConfig('nft', 'probation: {seconds: 30, confirm: manual}\n');
    publish({ 'shop/web': [1, 2] });
    const applying = node.apply();
    await until('it is on probation', async () => node.journal()?.open?.phase === 'open');
    expect(await node.sluiced('rollback', '0', '--remove-all-services', '--yes')).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('`sluiced apply` is in progress'),
    });
    expect(await node.sluiced('confirm')).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await applying).toMatchObject({ exitCode: 0, stderr: '' });
  });

  test('a release ends its probation while root floods the control socket with orders', {
    timeout: 120_000,
  }, async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, plane, '', 3);
    const flood = new AbortController();
    const sent = Array.from({ length: 16 }, async () => {
      let orders = 0;
      for (; !flood.signal.aborted; orders++) await order(`${node.directory}/state/control.sock`);
      return orders;
    });
    try {
      await until('it is confirmed', active(2), 60_000);
    } finally {
      flood.abort();
    }
    const orders = (await Promise.all(sent)).reduce((sum, of) => sum + of);
    expect(orders, 'more follow when the first are answered').toBeGreaterThan(16);
    expect(await reached(node)).toBe('2');
  });
});

/** Sends an order that is refused, and waits for the answer. */
async function order(socketPath: string): Promise<void> {
  await new Promise<void>((ended) => {
    const sent = request({ socketPath, path: '/', method: 'POST', agent: false }, (response) => response.resume());
    sent.on('error', () => undefined);
    sent.on('close', () => ended());
    sent.end('{"do":"liftQuarantine","name":"none"}');
  });
}

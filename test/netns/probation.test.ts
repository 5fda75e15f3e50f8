// @module-tag test
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';
import { publish, publishRelease, reached, startProbation } from './sluiced-probation.ts';

/** A release on probation: endpoints that change meanwhile, and the commands of an operator. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

describe('a release on probation', { timeout: 60_000 }, () => {
  test.for(['nft', 'legacy'] as const)(
    'on %s, an endpoint that is added meanwhile is applied at once, and stays when the release is rolled back',
    async (backend, context) => {
      needBackend(context, backend);
      await startProbation(node, backend);
      const dnatTargets = async (): Promise<readonly string[]> => {
        const rules = await node.rules(backend);
        return [...new Set(rules.match(/(?<=--to-destination 10\.244\.0\.)\d+/g))].toSorted();
      };
      expect(await dnatTargets(), 'both programs').toEqual(['12', '13', '2', '3']);
      publish(node, [2, 1]);
      await until('it is in both programs', async () => (await dnatTargets()).join() === '2,3');
      expect(node.journal()?.open?.phase).toBe('open');
      expect(['1', '2']).toContain(await reached(node));
      expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
      await until('it is rolled back', async () => node.journal()?.open === null);
      expect(await dnatTargets()).toEqual(['2', '3']);
      expect(['1', '2']).toContain(await reached(node));
      expect(node.journal()?.current).toMatchObject({ number: 1, revision: 1 });
      expect(await node.tool(['ipset', 'list', '-n'])).toBe('');
    },
  );

  test('for some sources includes packets of the node itself, so that its probes reach the release', async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, 'nft', ', sources: [10.244.7.0/24]');
    expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
    await until('it is rolled back', async () => (await reached(node)) === '1');
  });

  test('an operator confirms it, in manual mode after good probes, or cancels it, at once', async (context) => {
    needBackend(context, 'nft');
    await startProbation(node, 'nft', ', confirm: manual');
    expect(await node.sluiced('extend', '200')).toMatchObject({ exitCode: 0 });
    expect(await node.sluiced('confirm')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirm') });
    await until(
      'it is confirmed',
      async () => node.journal()?.history.at(-1)?.what === 'confirmed' && node.journal()?.open === null,
    );
    expect(await reached(node)).toBe('2');
    expect(await node.sluiced('confirm')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('no release is on probation'),
    });
    publishRelease(node, 1);
    await until('the next one is on probation', async () => (await reached(node)) === '1');
    expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
    await until(
      'it is taken back',
      async () => node.journal()?.history.at(-1)?.because === 'cancelled by the operator',
    );
    expect(await reached(node)).toBe('2');
  });
});

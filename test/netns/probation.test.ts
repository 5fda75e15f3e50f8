// @module-tag test
import { describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { modesOnNft, plainPlanes, until } from './sluiced-node.ts';
import { publish, publishRelease, reached, startProbation } from './sluiced-probation.ts';

/** A release on probation: endpoints that change meanwhile, and the commands of an operator. */

withNode();

const addresses = (...last: readonly number[]): string => last.map((n) => `10.244.0.${n}:8080`).join(' ');

describe('a release on probation', { timeout: 60_000 }, () => {
  test.for(oneInTurn(plainPlanes, 'probation'))(
    'on $backend, mode $mode, an endpoint that is added meanwhile is applied at once, and stays when the release is rolled back',
    async (plane, context) => {
      needBackend(context, plane.backend);
      await startProbation(node, plane);
      const endpoints = async (): Promise<string> => (await node.endpoints(plane)).join(' ');
      expect(await endpoints(), 'both programs').toBe(addresses(12, 13, 2, 3));
      publish(node, plane, [2, 1]);
      await until('it is in both programs', async () => (await endpoints()) === addresses(2, 3));
      expect(node.journal()?.open?.phase).toBe('open');
      expect(['1', '2']).toContain(await reached(node));
      expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
      await until('it is rolled back', async () => node.journal()?.open === null);
      expect(await endpoints()).toBe(addresses(2, 3));
      expect(['1', '2']).toContain(await reached(node));
      expect(node.journal()?.current).toMatchObject({ number: 1, revision: 1 });
      expect(await node.tool(['ipset', 'list', '-n'])).toBe('');
    },
  );

  test.for(oneInTurn(modesOnNft, 'sources'))(
    'in mode $mode, for some sources includes packets of the node itself, so that its probes reach the release',
    async (plane, context) => {
      needBackend(context, plane.backend);
      await startProbation(node, plane, ', sources: [10.244.7.0/24]');
      expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
      await until('it is rolled back', async () => (await reached(node)) === '1');
    },
  );

  test.for(oneInTurn(modesOnNft, 'operator'))(
    'in mode $mode, an operator confirms it, in manual mode after good probes, or cancels it, at once',
    async (plane, context) => {
      needBackend(context, plane.backend);
      await startProbation(node, plane, ', confirm: manual');
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
      publishRelease(node, plane, 1);
      await until('the next one is on probation', async () => (await reached(node)) === '1');
      expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
      await until(
        'it is taken back',
        async () => node.journal()?.history.at(-1)?.because === 'cancelled by the operator',
      );
      expect(await reached(node)).toBe('2');
    },
  );
});

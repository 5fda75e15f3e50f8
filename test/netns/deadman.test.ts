// @module-tag quick
// @module-tag alone
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { plainPlanes, SluicedNode, until } from './sluiced-node.ts';
import { deadmanSeconds, publishRelease, reached, startProbation } from './sluiced-probation.ts';

/** A release on probation, and a sluiced that sends no heartbeat: the kernel rolls back by itself, which clients observe. */

/** The allowance for a busy machine. */
const slackSeconds = 4;

beforeEach(needKernel);

/** Resumes a stopped daemon, which must not turn the switch on again. @returns why it rolled the release back */
async function wakeUp(node: SluicedNode, daemon: ChildProcess): Promise<string | undefined> {
  daemon.kill('SIGCONT');
  return until('the probation has ended', async () => node.journal()?.history.at(-1)?.because);
}

/** @returns why the next process rolled the release back; it leaves nothing of the release */
async function startAgain(node: SluicedNode): Promise<string | undefined> {
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  expect(await node.tool(['ipset', 'list', '-n'])).toBe('');
  return node.journal()?.history.flatMap(({ because }) => because ?? [])[0];
}

const [nft, legacy, nftables] = plainPlanes;
const losses = [
  { ...nft, signal: 'SIGKILL' },
  { ...nftables, signal: 'SIGKILL' },
  { ...legacy, signal: 'SIGSTOP' },
  { ...nftables, signal: 'SIGSTOP' },
  { ...nft, signal: 'SIGSTOP' },
  { ...legacy, signal: 'SIGKILL' },
] as const;

// Together, each on a node of its own: most of the time they wait.
describe('a release on probation', { timeout: 60_000, concurrent: true }, () => {
  test.for(losses.slice(0, atTier({ quick: 2, test: 3, all: 4, soak: 6 })))(
    'on $backend, mode $mode, $signal of sluiced: the old rules serve again without it, and a restart reports why',
    async ({ signal, ...plane }, context) => {
      needBackend(context, plane.backend);
      const node = await SluicedNode.make();
      try {
        const version = (): string | undefined => node.journal()?.current?.version;
        const daemon = await startProbation(node, plane);
        const before = version();
        await sleep((deadmanSeconds + 2) * 1000);
        expect(await reached(node), 'it was renewed').toBe('2');
        daemon.kill(signal);
        const killedMs = performance.now();
        await until('the kernel rolls back', async () => (await reached(node)) === '1');
        expect(performance.now() - killedMs).toBeLessThan((deadmanSeconds + slackSeconds) * 1000);
        expect([version(), node.journal()?.open?.phase]).toEqual([before, 'open']);
        if (signal === 'SIGKILL') publishRelease(node, plane, 1);
        const because = signal === 'SIGSTOP' ? await wakeUp(node, daemon) : await startAgain(node);
        expect(because).toContain(
          signal === 'SIGSTOP'
            ? 'the dead-man switch expired'
            : 'the process ended in the middle of the change; the kernel uses the old rules',
        );
        expect(await reached(node)).toBe('1');
      } finally {
        await node.remove();
      }
    },
  );
});

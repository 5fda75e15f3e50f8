// @module-tag all
import { beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../packages/applier/src/limits.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { plainPlanes, SluicedNode, until } from '../netns/sluiced-node.ts';
import { confirmFirst, publish, publishRelease } from '../netns/sluiced-probation.ts';
import { type Group, toolsOf } from './cells.ts';
import { TroubledTools } from './troubled-tools.ts';

/** A tool hangs in the middle of a change: how long does `/healthz` answer 200? */

beforeEach(needKernel);

/** The bound of one tool, after a helper that is killed first at its own; a third of that for a busy machine. */
const toldMsMax = ((limits.toolSlowMs + limits.nftHelperTimeoutMs) * 4) / 3;

const cells = plainPlanes.flatMap((plane) =>
  (['writers', 'readers', 'every'] as const satisfies readonly Group[])
    .filter((group) => toolsOf(plane, group).length > 0)
    .flatMap((group) => (['release', 'endpoint update'] as const).map((change) => ({ ...plane, group, change }))),
);

describe('/healthz', { concurrent: true, timeout: 300_000 }, () => {
  test.for(cells)(
    'tells that $group hang in a $change, on $backend, mode $mode',
    async ({ group, change, ...plane }, context) => {
      needBackend(context, plane.backend);
      const node = await SluicedNode.make();
      try {
        const tools = new TroubledTools(node.directory, plane);
        await confirmFirst(node, plane);
        node.writeConfig(plane.backend, 'probation: {seconds: 3}\n');
        const daemon = node.start(tools.mount);
        const code = ['curl', '-s', '-o', '/dev/null', '-m', '5', '-w', '%{http_code}'];
        const health = (): Promise<string> =>
          node.tool([...code, 'http://127.0.0.1:10276/healthz']).catch(() => 'nothing');
        await until('the daemon is healthy', async () => (await health()) === '200', 60_000);
        tools.begin(daemon.pid!, { group, trouble: 'hang' }, 1);
        if (change === 'release') publishRelease(node, plane, 2);
        else publish(node, plane, [1, 2]);
        await until('a call hangs', async () => tools.met !== '', 60_000);
        const startMs = performance.now();
        await until('it is unhealthy', async () => (await health()) === '503', 2 * toldMsMax);
        const toldMs = performance.now() - startMs;
        const { alarms } = JSON.parse((await node.get()) ?? '{}') as {
          readonly alarms?: Readonly<Record<string, string>>;
        };
        console.info(
          `${plane.backend} ${plane.mode}, ${group} hang in a ${change}: /healthz 503 after ${(toldMs / 1000).toFixed(1)} s, ${Object.keys(alarms ?? {}).join()}; ${tools.met.trim().split('\n').length} calls`,
        );
        tools.end(daemon.pid!);
        expect(toldMs).toBeLessThan(toldMsMax);
        await until('it is healthy again', async () => (await health()) === '200', 120_000);
      } finally {
        await node.remove();
      }
    },
  );
});

// @module-tag all
// @module-tag alone
import { expect, test } from 'vitest';
import { until } from '../../netns/until.ts';
import { useRig } from '../rig.ts';
import { receiptKeys, signedSystem, sluicedIn } from './signed.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

const withCluster = useRig();
const signed = signedSystem({ follows: false });

test('a signed release reaches the pod of the canary, and those of the others once its receipt allows it', {
  timeout: 1_800_000,
}, async (context) => {
  await signed.prepare?.(context);
  await withCluster(signed, async (cluster) => {
    const releases = signed.releases();
    releases.allow(await receiptKeys(cluster));
    const web = await startWeb(cluster, 'web', 3);
    await releases.publish(2, true);
    const answers = async (node: string): Promise<boolean> => {
      const asked = ['curl', '-sf', '--max-time', '2', `http://${web.address}/hostname`];
      return (await nodeOf(cluster, node).exec(asked)).stdout.startsWith('web');
    };
    await until('the canary serves', () => answers('node-1'), 60_000);
    for (const node of ['node-2', 'node-3'])
      await until(`${node} waits`, async () => /^waits/m.test(await sluicedIn(cluster, node, 'status')), 60_000);
    expect([await answers('node-2'), await answers('node-3')]).toEqual([false, false]);
    await until('the receipt allows the next wave', () => releases.promote(), 60_000);
    await untilAnswered(cluster, web);
  });
});

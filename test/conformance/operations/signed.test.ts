// @module-tag all
// @module-tag alone
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { need } from '../../deploy/programs.ts';
import { until } from '../../netns/until.ts';
import type { RealCluster } from '../cluster.ts';
import { useRig } from '../rig.ts';
import { applyProxyConfig, commit, type System } from '../systems.ts';
import { nodeImage, placeImage } from './node-image.ts';
import { runHelm } from './page.ts';
import { Releases } from './releases.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

const withCluster = useRig();

/** Values of the chart: pods that fetch from a folder, and send receipts to another one. */
function valuesOf(image: string, { origin, store, signers }: Releases): object {
  const extraVolumes = Object.entries({ origin, store }).map(([name, path]) => ({ name, hostPath: { path } }));
  return {
    delivery: 'fetch',
    watch: { enabled: false },
    sluiced: { image, allowedSigners: signers },
    fetch: {
      source: { dir: { path: '/origin/release' }, intervalSeconds: 2 },
      receipts: { push: { dir: { path: '/store' }, intervalSeconds: 1 } },
      extraVolumes,
      extraVolumeMounts: extraVolumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
    },
  };
}

/** Runs `sluiced` in the pod of a node. */
async function sluicedIn({ plane: { kubectl } }: RealCluster, node: string, verb: string): Promise<string> {
  const ofNode = ['-l', 'app=sluiced', `--field-selector=spec.nodeName=${node}`];
  const pod = await kubectl([
    '-n',
    'sluice-nodes',
    'get',
    'pods',
    ...ofNode,
    '-o',
    'jsonpath={.items[0].metadata.name}',
  ]);
  // A node that waits has an exit code of its own.
  const script = `sluiced ${verb} -c /etc/sluice/sluiced.yaml || :`;
  return kubectl(['-n', 'sluice-nodes', 'exec', pod, '-c', 'sluiced', '--', 'sh', '-c', script]);
}

test('a signed release reaches the pod of the canary, and those of the others once its receipt allows it', {
  timeout: 1_800_000,
}, async (context) => {
  const image = await nodeImage();
  if ('lack' in image) return context.skip(image.lack);
  const helm = await need(context, 'helm');
  let releases: Releases | undefined;
  const system: System = {
    title: 'Sluice, signed releases in waves',
    mode: 'nftables',
    version: commit,
    start: async (place) => {
      await applyProxyConfig(place.plane, 'nftables');
      releases = await Releases.start(place);
      await releases.publish(1, false);
      const values = join(place.folder, 'values.json');
      writeFileSync(values, JSON.stringify(valuesOf(await placeImage(place, image.archive), releases)));
      await runHelm(place, helm, [
        'install',
        'sluice',
        'deploy/chart',
        '-n',
        'sluice',
        '--create-namespace',
        '-f',
        values,
      ]);
      return new Map();
    },
  };
  await withCluster(system, async (cluster) => {
    const nodes = [...cluster.nodes.keys()];
    const keys = await Promise.all(nodes.map((node) => sluicedIn(cluster, node, 'keygen')));
    const web = await startWeb(cluster, 'web', 3);
    await releases?.publish(2, true);
    const answers = async (node: string): Promise<boolean> => {
      const asked = ['curl', '-sf', '--max-time', '2', `http://${web.address}/hostname`];
      return (await nodeOf(cluster, node).exec(asked)).stdout.startsWith('web');
    };
    await until('the canary serves', () => answers('node-1'), 60_000);
    for (const node of ['node-2', 'node-3'])
      await until(`${node} waits`, async () => /^waits/m.test(await sluicedIn(cluster, node, 'status')), 60_000);
    expect([await answers('node-2'), await answers('node-3')]).toEqual([false, false]);
    await until(
      'the receipt allows the next wave',
      async () => releases?.promote(keys.map((line) => `${line}\n`).join('')),
      60_000,
    );
    await untilAnswered(cluster, web);
  });
});

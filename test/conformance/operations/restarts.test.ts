// @module-tag all
// @module-tag alone
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { useRig } from '../rig.ts';
import { sluiceSystem } from '../systems.ts';
import { Clients } from './clients.ts';
import { killAndStart } from './restarts.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

/** Each program of a cluster is killed while clients connect: nothing is lost, and what changes afterwards is served. */

const withCluster = useRig();
const killed = [
  'kube-apiserver',
  'etcd',
  'kubelet node-1',
  'containerd node-1',
  'watch node-1',
  'sluiced node-1',
] as const;

describe.each([
  sluiceSystem({ mode: 'nftables', layout: 'tree', watch: 'node' }),
  ...(reaches('soak') ? [sluiceSystem({ mode: 'iptables', layout: 'tree', watch: 'node' })] : []),
])('$title', (system) => {
  test('clients are served while each program is killed, and a new pod of that node afterwards', {
    timeout: 1_200_000,
  }, async () => {
    await withCluster(
      system,
      async (cluster, folder) => {
        const web = await startWeb(cluster, 'web', 3);
        const clients = await Clients.start(nodeOf(cluster, 'node-1'), folder, [web.address]);
        for (const name of killed) {
          await killAndStart(cluster, name, 3_000);
          const next = await startWeb(cluster, `after-${name.replace(' ', '-')}`, 1, ['node-1']);
          await untilAnswered(cluster, next);
          await clients.goOn();
          process.stdout.write(`${name}: ${clients.served()} served, lost ${JSON.stringify(clients.lost())}\n`);
          expect({ name, lost: clients.lost() }).toEqual({ name, lost: [] });
        }
      },
      `restarts ${system.title}`,
    );
  });
});

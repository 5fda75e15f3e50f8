// @module-tag all
// @module-tag alone
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { useRig } from '../rig.ts';
import { sluicedCommand, sluiceSystem, startSluice, writeNodeConfig } from '../systems.ts';
import { Clients } from './clients.ts';
import { untilReady } from './restarts.ts';
import { startWeb, untilAnswered } from './web.ts';

/** A node boots while the API server is away: its machine is made anew, and its disk is kept. */

const withCluster = useRig();

describe.each([
  { mode: 'nftables', layout: 'tree', watch: 'node' } as const,
  ...(reaches('soak') ? [{ mode: 'iptables', layout: 'tree', watch: 'node' } as const] : []),
])('mode $mode', (setting) => {
  test('a node that boots without an API server serves its confirmed rules, and follows it once it is back', {
    timeout: 1_200_000,
  }, async () => {
    await withCluster(
      sluiceSystem(setting),
      async (cluster, folder) => {
        const web = await startWeb(cluster, 'web', 2, ['node-2', 'node-3']);
        await untilAnswered(cluster, web);
        for (const name of ['kube-apiserver', 'etcd']) await cluster.daemons.get(name)?.stop();
        const host = await cluster.reboot('node-1');
        const asked = ['curl', '-sf', '--max-time', '2', `http://${web.address}/hostname`];
        expect(await host.exec(asked)).not.toMatchObject({ exitCode: 0 });
        await host.run(['mkdir', '-p', '/run/sluice']);
        await host.run(sluicedCommand('boot', writeNodeConfig(cluster, setting, 'node-1')), { timeoutMs: 60_000 });
        expect(await host.exec(asked)).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^web-/) });
        const clients = await Clients.start(host, folder, [web.address]);
        await startSluice(cluster, setting, 'node-1', host);
        for (let round = 0; round < 5; round++) await clients.goOn();
        expect(clients.lost()).toEqual([]);
        // The controllers find all nodes silent then, and take their endpoints away until the kubelets have answered.
        for (const name of ['etcd', 'kube-apiserver']) cluster.daemons.get(name)?.start();
        await untilReady(cluster);
        await untilAnswered(cluster, await startWeb(cluster, 'after', 1, ['node-2']));
        await untilAnswered(cluster, web);
      },
      `boot in mode ${setting.mode}`,
    );
  });
});

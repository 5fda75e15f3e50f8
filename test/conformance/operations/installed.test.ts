// @module-tag all
// @module-tag alone
import { expect, test } from 'vitest';
import { matches } from '../../scripts/script.ts';
import { useRig } from '../rig.ts';
import { Clients } from './clients.ts';
import { installedSystem } from './installed.ts';
import { looking } from './page.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

const withCluster = useRig();

test('the page installs Sluice, whose pods serve the cluster, are replaced without a loss, and set sysctls', {
  timeout: 1_800_000,
}, async (context) => {
  const installed = installedSystem();
  await installed.prepare?.(context);
  await withCluster(installed, async (cluster, folder) => {
    const printed = await installed.look(cluster);
    process.stdout.write(printed.join(''));
    const wrong = looking.filter(({ prints }, index) => prints && !matches(printed[index] ?? '', prints));
    expect(wrong).toEqual([]);
    expect(printed.join('')).toMatch(/^table +protected/m);
    const host = nodeOf(cluster, 'node-1');
    const waits = await host.run(['cat', '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait']);
    expect(waits.trim()).toBe('3600');
    const web = await startWeb(cluster, 'web', 3);
    await untilAnswered(cluster, web);
    const clients = await Clients.start(host, folder, [web.address]);
    const { kubectl } = cluster.plane;
    await kubectl(['-n', 'sluice-nodes', 'rollout', 'restart', 'daemonset/sluiced']);
    await kubectl(['-n', 'sluice-nodes', 'rollout', 'status', 'daemonset/sluiced', '--timeout=110s']);
    await untilAnswered(cluster, await startWeb(cluster, 'after', 1));
    await clients.goOn();
    process.stdout.write(`pods replaced: ${clients.served()} connections\n`);
    expect(clients.lost()).toEqual([]);
  });
});

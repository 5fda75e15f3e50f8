// @module-tag all
// @module-tag alone
import { expect, test } from 'vitest';
import type { Block } from '../../runbooks/runbook.ts';
import { matches } from '../../scripts/script.ts';
import type { RealCluster } from '../cluster.ts';
import { useRig } from '../rig.ts';
import { Clients } from './clients.ts';
import { installedSystem } from './installed.ts';
import { kubeProxyPods } from './kube-proxy-pods.ts';
import { looking, removing } from './page.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

const withCluster = useRig();
const installed = installedSystem();

/** Runs blocks of the page, and compares what they print with the page. @returns what each printed */
async function follow(cluster: RealCluster, blocks: readonly Block[]): Promise<readonly string[]> {
  const printed = await installed.run(cluster, blocks);
  process.stdout.write(printed.join(''));
  const wrong = blocks.filter(({ prints }, index) => prints && !matches(printed[index] ?? '', prints));
  expect(wrong).toEqual([]);
  return printed;
}

/** Tables of nft on the nodes that are Sluice's. An older nft crashes at those that the image's has made, so that none is seen while they are there. */
async function tablesOf({ nodes }: RealCluster): Promise<readonly string[]> {
  const listed = await Promise.all([...nodes.values()].map((host) => host.run(['nft', 'list', 'tables'])));
  return listed.flatMap((tables) => tables.split('\n')).filter((line) => line.endsWith(' sluice'));
}

test('the page installs Sluice, whose pods serve the cluster, are replaced without a loss, and set sysctls; kube-proxy follows it', {
  timeout: 1_800_000,
}, async (context) => {
  await installed.prepare?.(context);
  await withCluster(installed, async (cluster, folder) => {
    expect((await follow(cluster, looking)).join('')).toMatch(/^table +protected/m);
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

    await follow(cluster, removing.slice(0, 1));
    expect(await kubectl(['get', 'pods', '-A', '-l', 'app=sluiced', '-o', 'name'])).toBe('');
    await untilAnswered(cluster, web);
    await kubeProxyPods('iptables', 'DaemonSet').start(cluster);
    await kubectl(['-n', 'kube-system', 'rollout', 'status', 'daemonset/kube-proxy', '--timeout=110s']);
    const next = await startWeb(cluster, 'by-kube-proxy', 1);
    await untilAnswered(cluster, next);
    const removed = (await follow(cluster, removing.slice(1))).join('').match(/^removed all rules/gm);
    expect(removed).toHaveLength(cluster.nodes.size);
    expect(await tablesOf(cluster)).toEqual([]);
    for (const one of [web, next]) await untilAnswered(cluster, one);
    await clients.goOn();
    process.stdout.write(`removed: ${clients.served()} connections\n`);
    expect(clients.lost()).toEqual([]);
  });
});

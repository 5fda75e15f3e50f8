// @module-tag all
// @module-tag alone
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath, reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import type { Host } from '../../netns/cluster-host.ts';
import { until } from '../../netns/until.ts';
import { useRig } from '../rig.ts';
import { type Mode, sluicedCommand, startNodeWatch, startSluiced, writeNodeConfig } from '../systems.ts';
import { Clients } from './clients.ts';
import { type Carrier, kubeProxyPods, manifestFile } from './kube-proxy-pods.ts';
import { pageText } from './page.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

/** A node of a running cluster moves from the real kube-proxy, in a pod of a real kubelet, to Sluice and back. */

const withCluster = useRig();
const cases: readonly { readonly mode: Mode; readonly carrier: Carrier }[] = [
  { mode: 'nftables', carrier: 'DaemonSet' },
  { mode: 'iptables', carrier: 'static pod' },
  ...(reaches('soak')
    ? ([
        { mode: 'iptables', carrier: 'DaemonSet' },
        { mode: 'nftables', carrier: 'static pod' },
      ] as const)
    : []),
];

/** The patch of the runbook: it excludes labelled nodes from the DaemonSet. */
const patch = /patch daemonset kube-proxy --type merge -p '\n([\s\S]+?)'/.exec(
  readFileSync(join(import.meta.dirname, '../../../docs/runbooks/from-kube-proxy.md'), 'utf8'),
)?.[1] as string;
const exclude = ['-n', 'kube-system', 'patch', 'daemonset', 'kube-proxy', '--type', 'merge', '-p', patch];
const rolledOut = ['-n', 'kube-system', 'rollout', 'status', 'daemonset/kube-proxy', '--timeout=110s'];

/** Runs a command, and an action once it says these words. */
async function during(host: Host, argv: readonly string[], words: string, act: () => Promise<unknown>) {
  const log = '/run/during.log';
  await host.run(['sh', '-c', ': > "$0"', log]);
  const ended = host.exec(['sh', '-c', 'log=$1; shift; exec "$@" > "$log" 2>&1', 'sh', log, ...argv], {
    timeoutMs: 300_000,
  });
  const said = async (): Promise<string> => (await host.exec(['cat', log])).stdout;
  let isOver = false;
  void ended.finally(() => (isOver = true));
  await until(`sluiced says: ${words}`, async () => isOver || (await said()).includes(words), 120_000);
  await act();
  return { exitCode: (await ended).exitCode, said: await said() };
}

test('the page names the commands that are run here', () => {
  for (const command of ['sluiced adopt --daemonset', 'sluiced adopt --manifest FILE', 'sluiced adopt --undo'])
    expect(pageText).toContain(command);
  expect(pageText).toContain('kubectl label node NODE sluice.dev/rules=sluiced');
});

describe.each(cases)('from kube-proxy in mode $mode as a $carrier', ({ mode, carrier }) => {
  test('a node moves to Sluice and back while clients connect, and loses no connection', {
    timeout: 1_200_000,
  }, async () => {
    await withCluster(kubeProxyPods(mode, carrier), async (cluster, folder) => {
      const { kubectl } = cluster.plane;
      const [isSet, host] = [carrier === 'DaemonSet', nodeOf(cluster, 'node-1')];
      if (isSet) {
        await kubectl(exclude);
        await kubectl(rolledOut);
      }
      const web = await startWeb(cluster, 'web', 3);
      const clients = await Clients.start(host, folder, [web.address]);
      startNodeWatch(cluster, 'node-1', host);
      const setting = { mode, layout: 'tree', watch: 'node' } as const;
      const config = writeNodeConfig(cluster, setting, 'node-1', { parityProgram: programPath('sluice') });
      const complete = ['test', '-e', '/run/sluice-watch/rendered/.sluice-complete'];
      await until('the watch has written', async () => (await host.exec(complete)).exitCode === 0, 60_000);
      await host.run(['mkdir', '-p', '/run/sluice']);
      const move = sluicedCommand('adopt', config, ...(isSet ? ['--daemonset'] : ['--manifest', manifestFile]));
      const label = async (text: string): Promise<unknown> => isSet && kubectl(['label', 'node', 'node-1', text]);
      const there = await during(host, move, 'kube-proxy stops now', () => label('sluice.dev/rules=sluiced'));
      expect(there).toMatchObject({ exitCode: 0, said: expect.stringContaining('adopted: Sluice serves alone') });
      const sluiced = await startSluiced(cluster, 'node-1', host, config);
      await untilAnswered(cluster, await startWeb(cluster, 'by-sluice', 1));
      await clients.goOn();
      await sluiced.stop();
      const undo = sluicedCommand('adopt', config, '--undo');
      const back = await during(host, undo, 'kube-proxy may run again', () => label('sluice.dev/rules-'));
      expect(back).toMatchObject({ exitCode: 0, said: expect.stringContaining('undone: kube-proxy serves') });
      await untilAnswered(cluster, await startWeb(cluster, 'by-kube-proxy', 1));
      await clients.goOn();
      process.stdout.write(`${mode}, ${carrier}: ${clients.served()} connections\n`);
      expect(clients.lost()).toEqual([]);
    });
  });
});

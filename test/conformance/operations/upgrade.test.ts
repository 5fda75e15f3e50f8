// @module-tag all
// @module-tag alone
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import type { Host } from '../../netns/cluster-host.ts';
import { until } from '../../netns/until.ts';
import { type LoggedDaemon, startLogged } from '../control-plane.ts';
import { useRig } from '../rig.ts';
import { applyProxyConfig, type System, type SystemPlace } from '../systems.ts';
import { Clients } from './clients.ts';
import { earlierPackages, fileOf, install, packages } from './packages.ts';
import { nodeOf, startWeb, untilAnswered } from './web.ts';

/**
 * Nodes with the Debian package of 0.1.0 go to that of today and back, in the order of CHANGELOG.md, while clients connect. `sluice watch`
 * runs beside the API server, from the same packages.
 */

const withCluster = useRig();
const earlier = '0.1.0';

/** Fields that both versions know. */
const configOf = (node: string, bundle: string): string =>
  `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: ${node}\nbundle: ${bundle}\nbackend: nft\nsignatures: {policy: none}\n`;
const settings = 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: conformance\ncomplete: true\n';

/** What runs on a node has no systemd there: the test does what the units do. */
async function startOn(host: Host, { folder }: SystemPlace): Promise<LoggedDaemon> {
  const input = configOf(host.name, join(folder, 'rendered'));
  const setUp = 'mkdir -p /run/sluice /etc/sluice; cat > /etc/sluice/sluiced.yaml';
  await host.run(['sh', '-ec', setUp], { input });
  const argv = ['env', 'RUNTIME_DIRECTORY=/run/sluice', '/usr/bin/sluiced', 'run'];
  return startLogged(host, join(folder, `sluiced-${host.name}.log`), argv);
}

/** The program that the watch starts as next. @param archive a package of Debian */
async function chooseRenderer({ folder }: SystemPlace, archive: string): Promise<void> {
  const [tree, link] = [join(folder, basename(archive, '.deb')), join(folder, 'renderer')];
  await execa('dpkg', ['-x', archive, tree]);
  rmSync(link, { force: true });
  symlinkSync(tree, link);
}

/** Mode iptables: 0.1.0 has no nftables. @param archive the package that it starts with */
const packaged = (archive: string): System => ({
  title: `Sluice ${earlier}, mode iptables, its package`,
  mode: 'iptables',
  version: () => earlier,
  start: async (place) => {
    const { control, folder, plane } = place;
    await applyProxyConfig(plane, 'iptables');
    await chooseRenderer(place, archive);
    writeFileSync(join(folder, 'sluice.yaml'), settings);
    const options = ['-c', join(folder, 'sluice.yaml'), `--kubeconfig=${plane.kubeconfig}`];
    const watch = [join(folder, 'renderer/usr/bin/sluice'), 'watch', '-o', join(folder, 'rendered'), ...options];
    const daemons = new Map([['watch', startLogged(control, join(folder, 'watch.log'), watch)]]);
    for (const [name, host] of place.nodes) {
      await install(host, archive);
      daemons.set(`sluiced ${name}`, await startOn(host, place));
    }
    return daemons;
  },
});

interface Status {
  readonly generation: number | null;
  readonly open: object | null;
  readonly daemon: { readonly healthy: boolean } | null;
}

/** What `sluiced status` of the installed version says, once the daemon is healthy and no release is open. */
const settled = (host: Host): Promise<Status> =>
  until(
    `${host.name} has confirmed its rules`,
    async () => {
      const { stdout } = await host.exec(['/usr/bin/sluiced', 'status', '-o', 'json']);
      if (!stdout.startsWith('{')) return undefined;
      const status = JSON.parse(stdout) as Status;
      return status.daemon?.healthy === true && status.open === null && (status.generation ?? 0) > 0
        ? status
        : undefined;
    },
    60_000,
  );

test(`nodes go from the package of ${earlier} to that of today and back, and lose no connection`, {
  timeout: 1_800_000,
}, async (context) => {
  const [from, to] = [await earlierPackages(earlier), await packages()];
  if ('lack' in from) return context.skip(from.lack);
  if ('lack' in to) return context.skip(to.lack);
  const [old, today] = [from, to].map(({ folder }) => fileOf(folder, 'sluice_', '_amd64.deb')) as [string, string];
  await withCluster(packaged(old), async (cluster, folder) => {
    const host = nodeOf(cluster, 'node-1');
    const web = await startWeb(cluster, 'web', 3);
    await untilAnswered(cluster, web);
    const clients = await Clients.start(host, folder, [web.address, `kept:${web.address}`]);
    /** Ends once a new Service is served by what runs then. */
    const expectNoLoss = async (title: string, name: string): Promise<void> => {
      await untilAnswered(cluster, await startWeb(cluster, name, 1));
      await clients.goOn();
      process.stdout.write(`${title}: ${clients.served()} connections, lost ${JSON.stringify(clients.lost())}\n`);
      expect({ title, lost: clients.lost() }).toEqual({ title, lost: [] });
    };
    const restart = async (name: string): Promise<void> => {
      await cluster.daemons.get(name)?.stop();
      cluster.daemons.get(name)?.start();
    };
    const nodesTo = async (archive: string): Promise<void> => {
      for (const node of cluster.nodes.values()) {
        const before = await settled(node);
        await install(node, archive);
        await restart(`sluiced ${node.name}`);
        // It goes on with the rules that the other version has confirmed.
        expect((await settled(node)).generation).toBeGreaterThanOrEqual(before.generation ?? 0);
      }
    };
    const rendererTo = async (archive: string): Promise<void> => {
      await chooseRenderer(cluster, archive);
      await restart('watch');
    };
    await expectNoLoss(`all of ${earlier}`, 'at-first');
    await nodesTo(today);
    await expectNoLoss('sluiced of today', 'nodes-upgraded');
    await rendererTo(today);
    await expectNoLoss('all of today', 'all-upgraded');
    await rendererTo(old);
    await expectNoLoss(`sluice of ${earlier}`, 'renderer-back');
    await nodesTo(old);
    await expectNoLoss(`all of ${earlier} again`, 'all-back');
  });
});

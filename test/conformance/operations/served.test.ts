// @module-tag all
// @module-tag alone
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { expect, test } from 'vitest';
import { need } from '../../deploy/programs.ts';
import { until } from '../../netns/until.ts';
import { controlAddresses } from '../addresses.ts';
import { startLogged } from '../control-plane.ts';
import { useRig } from '../rig.ts';
import { commit, sluiceSettings, type System, type SystemPlace } from '../systems.ts';
import { nodeImage, placeImage } from './node-image.ts';
import { runHelm } from './page.ts';
import { startWeb, untilAnswered } from './web.ts';

/** The chart's pods of `sluice watch --serve`, two with a Lease behind a load balancer, and nodes that follow them. */

const withCluster = useRig();
const port = 9443;
const ofWatch = ['-n', 'sluice', '-l', 'app=sluice-watch'];

/** Makes the Secret of the chart: a certificate for the load balancer, which is that of the API server, and a key for releases. */
async function makeSecret({ plane, folder }: SystemPlace): Promise<string> {
  const key = join(folder, 'release-key');
  const line = `watch namespaces="sluice-release" ${makeKey(key)}\n`;
  const pki = dirname(plane.kubeconfig);
  const files = [
    ...['crt', 'key'].map((ending) => `--from-file=tls.${ending}=${pki}/server.${ending}`),
    `--from-file=release-key=${key}`,
  ];
  await plane.kubectl(['create', 'namespace', 'sluice']);
  await plane.kubectl(['-n', 'sluice', 'create', 'secret', 'generic', 'watch', ...files]);
  return line;
}

function valuesOf(image: string, signers: string, caFile: string): object {
  const profiles = sluiceSettings.profiles.map((profile) => ({ ...profile, mode: 'nftables' }));
  return {
    delivery: 'fetch',
    apiServer: { host: controlAddresses[0], port: 6443 },
    watch: { image, serve: { secret: 'watch', type: 'ClusterIP' }, config: { ...sluiceSettings, profiles } },
    sluiced: { image, allowedSigners: signers },
    fetch: {
      source: { https: { url: `https://${controlAddresses[0]}:${port}`, tag: 'production', events: true } },
      caFile,
    },
  };
}

test('two pods serve nodes their changes, also once the one that publishes is gone, and when most Services go at once', {
  timeout: 1_800_000,
}, async (context) => {
  const image = await nodeImage();
  if ('lack' in image) return context.skip(image.lack);
  const helm = await need(context, 'helm');
  const system: System = {
    title: 'Sluice, mode nftables, served by pods',
    mode: 'nftables',
    version: commit,
    start: async (place) => {
      const { plane, control, programs, folder } = place;
      const signers = await makeSecret(place);
      const values = join(folder, 'values.json');
      const ca = readFileSync(join(dirname(plane.kubeconfig), 'ca.crt'), 'utf8');
      writeFileSync(values, JSON.stringify(valuesOf(await placeImage(place, image.archive), signers, ca)));
      await runHelm(place, helm, ['install', 'sluice', 'deploy/chart', '-n', 'sluice', '-f', values]);
      const pods = ['get', 'pods', ...ofWatch, '-o', 'jsonpath={.items[*].status.podIP}'];
      const kubectl = [programs.kubectl, `--kubeconfig=${plane.kubeconfig}`, ...pods];
      const script = join(import.meta.dirname, '../inside/balancer.ts');
      const argv = [process.execPath, script, controlAddresses[0], `${port}`, ...kubectl];
      return new Map([['balancer', startLogged(control, join(folder, 'balancer.log'), argv)]]);
    },
  };
  await withCluster(system, async (cluster) => {
    const { kubectl } = cluster.plane;
    await kubectl(['-n', 'sluice-nodes', 'rollout', 'status', 'daemonset/sluiced', '--timeout=110s']);
    await untilAnswered(cluster, await startWeb(cluster, 'before', 3));
    const holder = (): Promise<string> =>
      kubectl(['-n', 'sluice', 'get', 'lease', 'sluice-watch', '-o', 'jsonpath={.spec.holderIdentity}']);
    const gone = (await holder()).split('_')[0] as string;
    expect(await kubectl(['get', 'pods', ...ofWatch, '-o', 'name'])).toContain(`pod/${gone}`);
    await kubectl(['-n', 'sluice', 'delete', 'pod', gone, '--grace-period=0', '--force']);
    await until('another pod holds the Lease', async () => !(await holder()).startsWith(gone), 60_000);
    const after = await startWeb(cluster, 'after', 3);
    await untilAnswered(cluster, after);
    // Most Services go at once: nodes that held them would not take the next one.
    const names = Array.from({ length: 20 }, (_one, index) => `many-${index}`);
    const services = names.map((name) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, labels: { of: 'many' } },
      spec: { selector: { app: 'after' }, ports: [{ port: 80, targetPort: 8080 }] },
    }));
    await kubectl(['apply', '-f', '-'], services.map((one) => JSON.stringify(one)).join('\n---\n'));
    const last = ['get', 'service', 'many-19', '-o', 'jsonpath={.spec.clusterIP}'];
    await untilAnswered(cluster, { name: 'after', address: await kubectl(last) });
    await kubectl(['delete', 'service', '-l', 'of=many']);
    await untilAnswered(cluster, await startWeb(cluster, 'later', 1));
  });
});

import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { need } from '../../deploy/programs.ts';
import { until } from '../../netns/until.ts';
import { applyProxyConfig, commit, type System, type SystemPlace } from '../systems.ts';
import { nodeImage, placeImage } from './node-image.ts';
import { runHelm } from './page.ts';
import { Releases } from './releases.ts';

/** Pods that fetch signed releases, which the workstation publishes in waves: the chart with `delivery: fetch`. */
export interface Signed extends System {
  /** Of the running cluster; the first one is out. */
  readonly releases: () => Releases;
}

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
export async function sluicedIn({ plane: { kubectl } }: SystemPlace, node: string, verb: string): Promise<string> {
  const pods = ['-n', 'sluice-nodes', 'get', 'pods', '-l', 'app=sluiced', `--field-selector=spec.nodeName=${node}`];
  const pod = await kubectl([...pods, '-o', 'jsonpath={.items[0].metadata.name}']);
  // A node that waits has an exit code of its own.
  const script = `sluiced ${verb} -c /etc/sluice/sluiced.yaml || :`;
  return kubectl(['-n', 'sluice-nodes', 'exec', pod, '-c', 'sluiced', '--', 'sh', '-c', script]);
}

/** Makes the key of each node. @returns the lines of `allowed_receipts` */
export async function keysOf(place: SystemPlace): Promise<string> {
  const lines = [...place.nodes.keys()].map((node) => sluicedIn(place, node, 'keygen'));
  return (await Promise.all(lines)).map((line) => `${line}\n`).join('');
}

/** Publishes each change of the cluster as a release, whose next wave opens by receipts, until the end. The log has when. */
async function publishChanges(place: SystemPlace, releases: Releases, over: AbortSignal): Promise<void> {
  const allowed = await keysOf(place);
  const log = (text: string): void =>
    appendFileSync(join(place.folder, 'releases.log'), `${new Date().toISOString()} ${text}\n`);
  for (let serial = 2; !over.aborted; await sleep(200)) {
    if (!(await releases.hasChanged())) continue;
    await releases.publish(serial, true);
    log(`release ${serial}: its first wave is open`);
    await until('the next wave is open', async () => over.aborted || (await releases.promote(allowed)), 300_000);
    if (over.aborted) return;
    log(`release ${serial++}: all waves are open`);
  }
}

export function signedSystem(): Signed {
  let [helm, archive] = ['', ''];
  let releases: Releases | undefined;
  const ofCluster = (): Releases => {
    if (releases === undefined) throw new Error('The cluster is not started');
    return releases;
  };
  return {
    title: 'Sluice, mode nftables, signed releases in waves',
    mode: 'nftables',
    version: commit,
    // The others wait a minute at most for a change, as if nothing were signed.
    judgedBy: 'label',
    prepare: async (context) => {
      const image = await nodeImage();
      if ('lack' in image) return context.skip(image.lack);
      [helm, archive] = [await need(context, 'helm'), image.archive];
    },
    start: async (place) => {
      await applyProxyConfig(place.plane, 'nftables');
      releases = await Releases.start(place);
      await releases.publish(1, false);
      const values = join(place.folder, 'values.json');
      writeFileSync(values, JSON.stringify(valuesOf(await placeImage(place, archive), releases)));
      const chart = ['install', 'sluice', 'deploy/chart', '-n', 'sluice', '--create-namespace'];
      await runHelm(place, helm, [...chart, '-f', values]);
      return new Map();
    },
    during: (place, over) => publishChanges(place, ofCluster(), over),
    releases: ofCluster,
  };
}

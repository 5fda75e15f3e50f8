import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { need } from '../../deploy/programs.ts';
import { until } from '../../netns/until.ts';
import { controlAddresses } from '../addresses.ts';
import { type LoggedDaemon, startLogged } from '../control-plane.ts';
import { applyProxyConfig, commit, sluiceCommand, sluiceSettings, type System, type SystemPlace } from '../systems.ts';
import { nodeImage, placeImage } from './node-image.ts';
import { runHelm } from './page.ts';
import { Releases } from './releases.ts';

/** Runs `sluiced` in the pod of a node. */
export async function sluicedIn({ plane: { kubectl } }: SystemPlace, node: string, verb: string): Promise<string> {
  const ofNode = ['-l', 'app=sluiced', `--field-selector=spec.nodeName=${node}`];
  const name = ['-o', 'jsonpath={.items[0].metadata.name}'];
  const pod = await kubectl(['-n', 'sluice-nodes', 'get', 'pods', ...ofNode, ...name]);
  // A node that waits has an exit code of its own.
  const script = `sluiced ${verb} -c /etc/sluice/sluiced.yaml || :`;
  return kubectl(['-n', 'sluice-nodes', 'exec', pod, '-c', 'sluiced', '--', 'sh', '-c', script]);
}

/** Makes the keys of all nodes for receipts. @returns lines of `allowed_receipts` */
export async function receiptKeys(place: SystemPlace): Promise<string> {
  const keys = await Promise.all([...place.nodes.keys()].map((node) => sluicedIn(place, node, 'keygen')));
  return keys.map((line) => `${line}\n`).join('');
}

/** Values of the chart: pods that fetch from a folder, and send receipts to another one. */
function valuesOf(image: string, { origin, store, signers }: Releases, isLive: boolean): object {
  const extraVolumes = Object.entries({ origin, store }).map(([name, path]) => ({ name, hostPath: { path } }));
  return {
    delivery: 'fetch',
    apiServer: { host: controlAddresses[0], port: 6443 },
    watch: { enabled: false, config: sluiceSettings },
    sluiced: {
      image,
      allowedSigners: signers,
      live: { enabled: isLive },
      config: { healthzBindAddress: '0.0.0.0:10256', metricsBindAddress: '127.0.0.1:10249' },
    },
    fetch: {
      source: { dir: { path: '/origin/release' }, intervalSeconds: 1 },
      receipts: { push: { dir: { path: '/store' }, intervalSeconds: 1 } },
      extraVolumes,
      extraVolumeMounts: extraVolumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
    },
  };
}

/** The chart's pods, which fetch signed releases. */
export interface Signed extends System {
  /** Of the cluster that was started last. */
  readonly releases: () => Releases;
}

/** @param follows whether releases follow the cluster, one after the other, with live endpoints; else a test makes them */
export function signedSystem({ follows }: { readonly follows: boolean }): Signed {
  let [helm, archive] = ['', ''];
  let releases: Releases | undefined;
  return {
    title: 'Sluice, mode nftables, in signed waves',
    mode: 'nftables',
    version: commit,
    releases: () => {
      if (!releases) throw new Error('The system is not started');
      return releases;
    },
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
      writeFileSync(values, JSON.stringify(valuesOf(await placeImage(place, archive), releases, follows)));
      const chart = ['install', 'sluice', 'deploy/chart', '-n', 'sluice', '--create-namespace', '-f', values];
      await runHelm(place, helm, chart);
      return new Map(follows ? [['releases', await follow(place, releases)]] : []);
    },
  };
}

/** Starts what makes a release of each state of the cluster, and waits for the first. It ends with the machine of the API server. */
async function follow(place: SystemPlace, releases: Releases): Promise<LoggedDaemon> {
  await place.plane.kubectl(['-n', 'sluice-nodes', 'rollout', 'status', 'daemonset/sluiced', '--timeout=110s']);
  releases.allow(await receiptKeys(place));
  const script = join(import.meta.dirname, '../inside/releases.sh');
  const programs = [process.execPath, programPath('sluice')];
  const argv = ['sh', script, releases.work, ...programs, ...sluiceCommand(place, ['render', '--from-cluster'])];
  const log = join(place.folder, 'releases.log');
  const daemon = startLogged(place.control, log, argv);
  // What the release before it lacks.
  await place.plane.kubectl(['create', 'service', 'clusterip', 'first', '--tcp=80:80']);
  const isOpen = async (): Promise<boolean> => existsSync(log) && /open after/.test(readFileSync(log, 'utf8'));
  await until('the first release is open', isOpen, 180_000);
  return daemon;
}

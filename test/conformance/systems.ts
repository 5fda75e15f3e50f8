import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import type { TestContext } from 'vitest';
import type { Host } from '../netns/cluster-host.ts';
import { kubeProxy } from '../parity/binaries.ts';
import { podCIDRs } from './addresses.ts';
import { type ControlPlane, type LoggedDaemon, startLogged } from './control-plane.ts';
import { kubernetesVersion, type Programs } from './programs.ts';

export type Mode = 'iptables' | 'nftables';

/** A program that serves Services, under the tests of Kubernetes. */
export interface System {
  readonly title: string;
  readonly mode: Mode;
  /** kube-proxy's release, or the commit of Sluice. */
  readonly version: () => string;
  /** Builds what it needs; skips the test by name where that is missing. */
  readonly prepare?: (context: TestContext) => Promise<void>;
  /** @returns its programs by name and node, such as `sluiced node-1` */
  readonly start: (cluster: SystemPlace) => Promise<ReadonlyMap<string, LoggedDaemon>>;
}

/** Where it is started. */
export interface SystemPlace {
  readonly control: Host;
  readonly plane: ControlPlane;
  readonly nodes: ReadonlyMap<string, Host>;
  readonly programs: Programs;
  /** For its files and logs; every machine sees it under this path. */
  readonly folder: string;
  /** Names of images that each node has: agnhost, and the base of kube-proxy's own. */
  readonly images: Readonly<Record<'agnhost' | 'iptables', string>>;
}

/** As in the ConfigMap that kubeadm makes. */
export const proxyConfiguration = (mode: Mode): Readonly<Record<string, unknown>> => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  bindAddress: '::',
  // Its default would be ::1 here, and a test asks on 127.0.0.1.
  metricsBindAddress: '127.0.0.1:10249',
  clusterCIDR: podCIDRs.join(','),
  mode,
  // The machine's own limits stay.
  conntrack: { maxPerCore: 0, min: 0 },
});

/** The real kube-proxy, as control. */
export const kubeProxySystem = (mode: Mode): System => ({
  title: `kube-proxy, mode ${mode}`,
  mode,
  version: () => kubernetesVersion,
  start: async ({ plane, nodes, folder }) => {
    const built = await kubeProxy();
    if ('lack' in built) throw new Error(built.lack);
    const daemons = new Map<string, LoggedDaemon>();
    for (const [name, host] of nodes) {
      const file = join(folder, `kube-proxy-${name}.yaml`);
      const clientConnection = { kubeconfig: plane.kubeconfig };
      const config = { ...proxyConfiguration(mode), hostnameOverride: name, clientConnection };
      writeFileSync(file, JSON.stringify(config));
      const argv = [built.path, `--config=${file}`];
      daemons.set(`kube-proxy ${name}`, startLogged(host, join(folder, `kube-proxy-${name}.log`), argv));
    }
    return daemons;
  },
});

/** The ConfigMap of kube-proxy, which Sluice reads. */
export async function applyProxyConfig({ kubectl }: ControlPlane, mode: Mode): Promise<void> {
  const data = { 'config.conf': JSON.stringify(proxyConfiguration(mode)) };
  const metadata = { name: 'kube-proxy', namespace: 'kube-system' };
  await kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
}

export interface SluiceSetting {
  readonly mode: Mode;
  readonly layout: 'tree' | 'flat';
  /** cluster: one `sluice watch` beside the API server, whose directory all nodes read. node: each node has its own. Left out: cluster. */
  readonly watch?: 'cluster' | 'node';
}

/** `sluice watch` once or on each node, and `sluiced` on each node, which reads its directory. */
export const sluiceSystem = (setting: SluiceSetting): System => {
  const { mode, layout, watch = 'cluster' } = setting;
  return {
    title: `Sluice, mode ${mode}${mode === 'iptables' ? `, layout ${layout}` : ''}${watch === 'node' ? ', a watch on each node' : ''}`,
    mode,
    version: commit,
    start: async (place) => {
      await applyProxyConfig(place.plane, mode);
      const daemons = new Map<string, LoggedDaemon>();
      if (watch === 'cluster')
        daemons.set('watch', startWatch(place, place.control, join(place.folder, 'watch.log'), bundleOf(place, watch)));
      for (const [name, host] of place.nodes)
        for (const [key, daemon] of await startSluice(place, setting, name, host)) daemons.set(key, daemon);
      return daemons;
    },
  };
};

/** Nodes with a system each: all meet the same changes at the same load. @param title of the whole */
export const sideBySide = (title: string, parts: readonly (readonly [System, readonly string[]])[]): System => ({
  title,
  mode: parts[0]?.[0].mode ?? 'nftables',
  version: commit,
  start: async (place) => {
    const daemons = new Map<string, LoggedDaemon>();
    for (const [system, names] of parts) {
      const nodes = new Map([...place.nodes].filter(([name]) => names.includes(name)));
      for (const [key, daemon] of await system.start({ ...place, nodes })) daemons.set(key, daemon);
    }
    return daemons;
  },
});

/** The commit of Sluice. */
export const commit = (): string =>
  execaSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: import.meta.dirname }).stdout;

const bundleOf = ({ folder }: SystemPlace, watch: 'cluster' | 'node'): string =>
  watch === 'node' ? '/run/sluice-watch/rendered' : join(folder, 'rendered');

/** Of `sluice.yaml`: what kube-proxy's ConfigMap does not say. */
export const sluiceSettings = {
  clusterName: 'conformance',
  complete: true,
  profiles: [{ name: 'default', kubeProxyVersion: '1.37' }],
} as const;

/** `sluice` with what it needs to render this cluster: `watch`, or `render --from-cluster`. */
export function sluiceCommand({ plane, folder }: SystemPlace, verb: readonly string[]): readonly string[] {
  const settings = join(folder, 'sluice.yaml');
  const config = { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', ...sluiceSettings };
  writeFileSync(settings, JSON.stringify(config));
  return [process.execPath, programPath('sluice'), ...verb, '-c', settings, `--kubeconfig=${plane.kubeconfig}`];
}

function startWatch(
  place: SystemPlace,
  host: Host,
  log: string,
  bundle: string,
  ...more: readonly string[]
): LoggedDaemon {
  const argv = sluiceCommand(place, ['watch', '-o', bundle, '--listen', '127.0.0.1:9780', ...more]);
  return startLogged(host, log, argv);
}

/** Writes the config of a node. @returns its path */
export function writeNodeConfig(
  place: SystemPlace,
  { layout, watch = 'cluster' }: SluiceSetting,
  name: string,
  more: Readonly<Record<string, unknown>> = {},
): string {
  const own = join(place.folder, name);
  mkdirSync(own, { recursive: true });
  const file = join(own, 'sluiced.yaml');
  const config = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluicedConfig',
    node: name,
    bundle: bundleOf(place, watch),
    state: join(own, 'state'),
    backend: 'nft',
    layout,
    signatures: { policy: 'none' },
    // As deploy/node-watch.yaml has it.
    ...(watch === 'node' ? { removals: { holdSeconds: 0 } } : {}),
    // kube-proxy's ports, which a test reads.
    metricsBindAddress: '127.0.0.1:10249',
    healthzBindAddress: '0.0.0.0:10256',
    ...more,
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

/** A command of `sluiced` on a node. */
export const sluicedCommand = (verb: string, config: string, ...more: readonly string[]): readonly string[] => [
  'env',
  'RUNTIME_DIRECTORY=/run/sluice',
  process.execPath,
  programPath('sluiced'),
  verb,
  ...more,
  '-c',
  config,
];

/** A node's own watch. It ends with the node. */
export const startNodeWatch = (place: SystemPlace, name: string, host: Host): LoggedDaemon =>
  startWatch(place, host, join(place.folder, `watch-${name}.log`), bundleOf(place, 'node'), '--node', name);

/** `sluiced` on a node. It ends with it. @param config its path */
export async function startSluiced(
  place: SystemPlace,
  name: string,
  host: Host,
  config: string,
): Promise<LoggedDaemon> {
  await host.run(['mkdir', '-p', '/run/sluice']);
  return startLogged(host, join(place.folder, `sluiced-${name}.log`), sluicedCommand('run', config));
}

/** `sluiced`, and a watch where each node has its own, on a node. */
export async function startSluice(
  place: SystemPlace,
  setting: SluiceSetting,
  name: string,
  host: Host,
): Promise<ReadonlyMap<string, LoggedDaemon>> {
  const sluiced = await startSluiced(place, name, host, writeNodeConfig(place, setting, name));
  const daemons = new Map([[`sluiced ${name}`, sluiced]]);
  if (setting.watch === 'node') daemons.set(`watch ${name}`, startNodeWatch(place, name, host));
  return daemons;
}

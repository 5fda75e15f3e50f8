import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import type { Host } from '../netns/cluster-host.ts';
import { kubeProxy } from '../parity/binaries.ts';
import { execaSync } from 'execa';
import { podCIDRs } from './addresses.ts';
import { type ControlPlane, startLogged } from './control-plane.ts';
import { kubernetesVersion } from './programs.ts';

export type Mode = 'iptables' | 'nftables';

/** A program that serves Services, under the tests of Kubernetes. */
export interface System {
  readonly title: string;
  readonly mode: Mode;
  /** kube-proxy's release, or the commit of Sluice. */
  readonly version: () => string;
  readonly start: (cluster: SystemPlace) => Promise<void>;
}

/** Where it is started. */
export interface SystemPlace {
  readonly control: Host;
  readonly plane: ControlPlane;
  readonly nodes: ReadonlyMap<string, Host>;
  /** For its files and logs; every machine sees it under this path. */
  readonly folder: string;
}

/** As in the ConfigMap that kubeadm makes. */
const proxyConfiguration = (mode: Mode): Readonly<Record<string, unknown>> => ({
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
    for (const [name, host] of nodes) {
      const file = join(folder, `kube-proxy-${name}.yaml`);
      const clientConnection = { kubeconfig: plane.kubeconfig };
      const config = { ...proxyConfiguration(mode), hostnameOverride: name, clientConnection };
      writeFileSync(file, JSON.stringify(config));
      startLogged(host, join(folder, `kube-proxy-${name}.log`), [built.path, `--config=${file}`]);
    }
  },
});

export interface SluiceSetting {
  readonly mode: Mode;
  readonly layout: 'tree' | 'flat';
  /** cluster: one `sluice watch` beside the API server, whose directory all nodes read. node: each node has its own. Left out: cluster. */
  readonly watch?: 'cluster' | 'node';
}

/** `sluice watch` once or on each node, and `sluiced` on each node, which reads its directory. */
export const sluiceSystem = ({ mode, layout, watch = 'cluster' }: SluiceSetting): System => ({
  title: `Sluice, mode ${mode}${mode === 'iptables' ? `, layout ${layout}` : ''}${watch === 'node' ? ', a watch on each node' : ''}`,
  mode,
  version: () => execaSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: import.meta.dirname }).stdout,
  start: async ({ control, plane, nodes, folder }) => {
    const bundle = watch === 'node' ? '/run/sluice-watch/rendered' : join(folder, 'rendered');
    const data = { 'config.conf': JSON.stringify(proxyConfiguration(mode)) };
    const configMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'kube-proxy', namespace: 'kube-system' },
      data,
    };
    await plane.kubectl(['apply', '-f', '-'], JSON.stringify(configMap));
    const settings = join(folder, 'sluice.yaml');
    writeFileSync(
      settings,
      'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: conformance\ncomplete: true\nprofiles: [{name: default, kubeProxyVersion: "1.37"}]\n',
    );
    const startWatch = (host: Host, log: string, ...more: readonly string[]): void => {
      const options = ['-c', settings, `--kubeconfig=${plane.kubeconfig}`, '-o', bundle, '--listen', '127.0.0.1:9780'];
      const argv = [process.execPath, programPath('sluice'), 'watch', ...options, ...more];
      startLogged(host, join(folder, log), argv);
    };
    if (watch === 'cluster') startWatch(control, 'watch.log');
    for (const [name, host] of nodes) {
      const own = join(folder, name);
      mkdirSync(own, { recursive: true });
      const file = join(own, 'sluiced.yaml');
      const config = {
        apiVersion: 'sluice.dev/v1alpha1',
        kind: 'SluicedConfig',
        node: name,
        bundle,
        state: join(own, 'state'),
        backend: 'nft',
        layout,
        signatures: { policy: 'none' },
        // kube-proxy's ports, which a test reads.
        metricsBindAddress: '127.0.0.1:10249',
        healthzBindAddress: '0.0.0.0:10256',
      };
      writeFileSync(file, JSON.stringify(config));
      const run = ['env', 'RUNTIME_DIRECTORY=/run/sluice', process.execPath, programPath('sluiced'), 'run', '-c', file];
      await host.run(['mkdir', '-p', '/run/sluice']);
      if (watch === 'node') startWatch(host, `watch-${name}.log`, '--node', name);
      startLogged(host, join(folder, `sluiced-${name}.log`), run);
    }
  },
});

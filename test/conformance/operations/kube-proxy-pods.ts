import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { kubeProxy } from '../../parity/binaries.ts';
import type { LoggedDaemon } from '../control-plane.ts';
import { staticPods } from '../node.ts';
import { kubernetesVersion } from '../programs.ts';
import { applyProxyConfig, type Mode, proxyConfiguration, type System, type SystemPlace } from '../systems.ts';

/** What runs kube-proxy on the nodes: a DaemonSet, as kubeadm makes it, or a manifest of the kubelet on each. */
export type Carrier = 'DaemonSet' | 'static pod';

export const manifestFile = `${staticPods}/kube-proxy.yaml`;

/** The real kube-proxy in pods of the kubelets. */
export const kubeProxyPods = (mode: Mode, carrier: Carrier): System => ({
  title: `kube-proxy, mode ${mode}, as a ${carrier}`,
  mode,
  version: () => kubernetesVersion,
  start: async (place) => {
    await applyProxyConfig(place.plane, mode);
    const pod = await podOf(place, mode);
    if (carrier === 'DaemonSet') await place.plane.kubectl(['apply', '-f', '-'], JSON.stringify(daemonSet(pod)));
    else
      for (const host of place.nodes.values())
        await host.run(['sh', '-c', 'cat > "$0"', manifestFile], {
          input: JSON.stringify({ ...staticPod, spec: pod }),
        });
    return new Map<string, LoggedDaemon>();
  },
});

const labels = { 'k8s-app': 'kube-proxy' };
const metadata = { name: 'kube-proxy', namespace: 'kube-system', labels };
const staticPod = { apiVersion: 'v1', kind: 'Pod', metadata };

/** As in `cmd/kubeadm/app/phases/addons/proxy/manifests.go`. */
const daemonSet = (spec: object): object => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata,
  spec: {
    selector: { matchLabels: labels },
    updateStrategy: { type: 'RollingUpdate' },
    template: { metadata: { labels }, spec },
  },
});

/** The base of kube-proxy's own image, with the program and its files from the machine. */
async function podOf({ plane, images, folder }: SystemPlace, mode: Mode): Promise<object> {
  const built = await kubeProxy();
  if ('lack' in built) throw new Error(built.lack);
  const file = join(folder, 'kube-proxy.yaml');
  const clientConnection = { kubeconfig: plane.kubeconfig };
  writeFileSync(file, JSON.stringify({ ...proxyConfiguration(mode), clientConnection }));
  const folders = { program: dirname(built.path), config: folder, account: dirname(plane.kubeconfig) };
  const entries = Object.entries({ ...folders, lock: '/run/xtables.lock' });
  return {
    priorityClassName: 'system-node-critical',
    hostNetwork: true,
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 10,
    tolerations: [{ operator: 'Exists' }],
    containers: [
      {
        name: 'kube-proxy',
        image: images.iptables,
        // Its name is that of the process, by which `sluiced` finds it.
        command: [
          'bash',
          '-c',
          'exec -a kube-proxy "$@"',
          'sh',
          built.path,
          `--config=${file}`,
          '--hostname-override=$(NODE_NAME)',
        ],
        env: [{ name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
        securityContext: { privileged: true },
        volumeMounts: entries.map(([name, path]) => ({ name, mountPath: path })),
      },
    ],
    volumes: entries.map(([name, path]) => ({
      name,
      hostPath: { path, type: name === 'lock' ? 'FileOrCreate' : 'Directory' },
    })),
  };
}

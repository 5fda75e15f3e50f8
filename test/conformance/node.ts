import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { dnsAddress, type NodePlace } from './addresses.ts';
import { type LoggedDaemon, startLogged } from './control-plane.ts';
import type { Programs } from './programs.ts';

/** What runs on a node beside the program under test. */
export interface NodeDaemons {
  readonly containerd: LoggedDaemon;
  readonly kubelet: LoggedDaemon;
}

export interface NodeParts {
  readonly programs: Programs;
  /** Debian's containerd, runc and CNI plugins, unpacked. */
  readonly debian: string;
  readonly images: readonly string[];
  readonly kubeconfig: string;
  /** The image of the container that holds a pod's namespaces. */
  readonly pause: string;
}

/** The PATH of what runs containers. @param debian the unpacked packages */
const pathOf = (debian: string): string => `PATH=${debian}/usr/bin:${debian}/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin`;

/** The beginning of a command of containerd's client, for the containers of the kubelet. */
export const ctr = (debian: string): readonly string[] => ['env', pathOf(debian), 'ctr', '-n', 'k8s.io'];

/** containerd with the images of the tests, and a kubelet, on a machine. They end with it. */
export async function startNode(host: Host, place: NodePlace, folder: string, parts: NodeParts): Promise<NodeDaemons> {
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  mkdirSync(folder, { recursive: true });
  const { debian, programs } = parts;
  const path = pathOf(debian);
  const pods = file('pods.conflist', JSON.stringify(podNetwork(place)));
  const setUp = `mkdir -p /etc/cni/net.d ${staticPods} && cp "$0" /etc/cni/net.d/10-pods.conflist`;
  await host.run(['sh', '-ec', setUp, pods]);
  const config = file('containerd.toml', containerdConfig(debian, parts.pause));
  const containerd = startLogged(host, join(folder, 'containerd.log'), ['env', path, 'containerd', '-c', config]);
  const isUp = async (): Promise<boolean> => (await host.exec([...ctr(debian), 'version'])).exitCode === 0;
  await until(`containerd answers on ${place.name}`, isUp, 60_000);
  for (const image of parts.images) await host.run([...ctr(debian), 'images', 'import', image], { timeoutMs: 300_000 });
  const resolver = file('resolv.conf', 'nameserver 127.0.0.1\n');
  const kubelet = startLogged(host, join(folder, 'kubelet.log'), [
    'env',
    path,
    programs.kubelet,
    `--config=${file('kubelet.yaml', JSON.stringify(kubeletConfig(resolver)))}`,
    `--kubeconfig=${parts.kubeconfig}`,
    `--hostname-override=${place.name}`,
    `--node-ip=${place.addresses.join(',')}`,
    `--node-labels=topology.kubernetes.io/zone=${place.zone}`,
  ]);
  return { containerd, kubelet };
}

/** Manifests there are pods of the kubelet alone. */
export const staticPods = '/etc/kubernetes/manifests';

const containerdConfig = (debian: string, pause: string): string => `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${debian}/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
`;

/** https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ */
const kubeletConfig = (resolver: string): object => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  cgroupDriver: 'cgroupfs',
  failCgroupV1: false,
  failSwapOn: false,
  clusterDNS: [dnsAddress],
  clusterDomain: 'cluster.local',
  containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
  resolvConf: resolver,
  staticPodPath: staticPods,
  // The machine's disk and memory are those of many tests.
  evictionHard: {
    'memory.available': '50Mi',
    'nodefs.available': '1%',
    'imagefs.available': '1%',
    'nodefs.inodesFree': '1%',
  },
  imageMaximumGCAge: '0s',
  imageGCHighThresholdPercent: 100,
  imageGCLowThresholdPercent: 99,
});

/** https://www.cni.dev/plugins/current/main/ptp/ */
const podNetwork = ({ podCIDRs }: NodePlace): object => ({
  cniVersion: '0.4.0',
  name: 'pods',
  plugins: [
    {
      type: 'ptp',
      ipMasq: false,
      ipam: {
        type: 'host-local',
        dataDir: '/run/cni-addresses',
        ranges: podCIDRs.map((subnet) => [{ subnet }]),
        routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }],
      },
    },
    { type: 'portmap', snat: true, capabilities: { portMappings: true } },
  ],
});

import { expect, test } from 'vitest';
import { load } from '../load.ts';
import { readConfig } from './config.ts';

/** What a render makes of files: the problems, and the settings that differ from the defaults. */
function read(...texts: readonly string[]) {
  const loaded = load(texts.map((text, index) => ({ file: `${index}.yaml`, text })));
  const { config, problems } = readConfig({ kubeProxy: loaded.kubeProxy });
  const [profile] = config.profiles;
  return {
    loaded,
    config,
    profile,
    problems: [...loaded.problems, ...problems]
      .filter(({ code }) => code !== 'MODE_DEPRECATED' && code !== 'MODE_NEEDS_SLUICED')
      .map(({ code, level, at, message }) => `${code} ${level} ${at?.file}:${at?.line} ${message}`),
  };
}

const kubeProxy = (more: string): string =>
  `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n${more}`;
const ipvs = kubeProxy(
  'mode: ipvs\nclusterCIDR: 10.244.0.0/16\niptables: {masqueradeAll: true}\nipvs: {scheduler: lc}\n',
);
const indent = (text: string): string => text.replaceAll(/^(?=.)/gm, '    ');
const configMap = (name: string, key: string, text: string, field = 'data'): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}, namespace: kube-system}\n${field}:\n  ${key}: |-\n${indent(text)}`;

test.each([
  ['kubeadm and kubespray', configMap('kube-proxy', 'config.conf', ipvs)],
  ['EKS', configMap('kube-proxy-config', 'config', ipvs)],
  ['AKS', configMap('kube-proxy-custom', 'kube-proxy.yaml', ipvs)],
  ['Gardener, whose name has a digest', configMap('kube-proxy-config-1a2b3c4d', 'config.yaml', ipvs)],
  ['a key made by hand, in another namespace', configMap('x', 'a-1_b.C', ipvs).replace('kube-system', 'infra')],
  ['a value of several documents', configMap('x', 'all', `---\nkind: KubeletConfiguration\n---\n${ipvs}`)],
  [
    'JSON in a value',
    configMap(
      'x',
      'j',
      '{"mode":"ipvs","kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","clusterCIDR":"10.244.0.0/16","iptables":{"masqueradeAll":true},"ipvs":{"scheduler":"lc"}}',
    ),
  ],
  ['bytes', configMap('x', 'b', Buffer.from(ipvs).toString('base64'), 'binaryData')],
  [
    'a list of ConfigMaps',
    `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data: {kubeconfig: a}\n- apiVersion: v1\n  kind: ConfigMap\n  data: {config: ${JSON.stringify(ipvs)}}\n`,
  ],
  [
    'quoted kinds',
    configMap('x', 'q', ipvs.replace('kind: KubeProxyConfiguration', '"kind": "KubeProxyConfiguration"')),
  ],
])('reads the configuration of %s by its content', (_title, text) => {
  const { profile, problems } = read(text);
  expect(problems).toEqual([]);
  expect(profile).toMatchObject({
    mode: 'ipvs',
    clusterCIDR: { ipv4: '10.244.0.0/16' },
    iptables: { masqueradeAll: true },
    ipvs: { scheduler: 'lc' },
  });
});

test('reads anchors and merge keys in a value', () => {
  const text = kubeProxy('mode: ipvs\nnftables: &all {masqueradeAll: true}\niptables:\n  <<: *all\n');
  expect(read(configMap('a', 'c', text))).toMatchObject({
    problems: [],
    profile: { mode: 'ipvs', iptables: { masqueradeAll: true } },
  });
});

test('finds places in the second document of a value', () => {
  const text = configMap('x', 'all', `---\nkind: KubeletConfiguration\n---\n${kubeProxy('mode: x\n')}`);
  expect(read(text).problems).toEqual([expect.stringMatching(/^CONFIG_INVALID error 0\.yaml:11 Cannot use mode/)]);
});

test.each([
  ['spec', '{kubeProxy: {proxyMode: ipvs}}'],
  ['spec', '{kubernetes: {kubeProxy: {mode: IPVS}}}'],
  ['spec', '{network: {kubeProxy: {mode: ipvs}}}'],
  ['spec', '{kubeProxyConfig: {proxyArguments: {proxy-mode: [ipvs]}}}'],
  ['networking', '{kubeProxyMode: ipvs}'],
])('names the config of an installer, unless that of kube-proxy is there: %s: %s', (key, text) => {
  const cluster = `apiVersion: example.org/v1\nkind: Cluster\n${key}: ${text}\n`;
  expect(read(cluster).problems).toEqual([expect.stringMatching(/^CONFIG_IGNORED warning 0\.yaml:1 /)]);
  expect(read(cluster, ipvs).problems).toEqual([]);
});

test('leaves other ConfigMaps alone', () => {
  const { loaded } = read(configMap('coredns', 'Corefile', '.:53 {}'), configMap('kube-proxy', 'kubeconfig', 'a: b'));
  expect([...loaded.ignored]).toEqual([['ConfigMap', 2]]);
});

const workload = (kind: string, command: string, image = 'registry.k8s.io/kube-proxy:v1.34.1'): string => {
  const spec = `{containers: [{name: a, image: "${image}", ${command}}]}`;
  return kind === 'Pod'
    ? `apiVersion: v1\nkind: Pod\nmetadata: {name: kube-proxy-a, namespace: kube-system}\nspec: ${spec}\n`
    : `apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: kube-proxy, namespace: kube-system}\nspec: {template: {spec: ${spec}}}\n`;
};
const k3s = `kube-proxy-arg: [proxy-mode=ipvs, masquerade-all=true, ipvs-scheduler=lc]\ncluster-cidr: 10.244.0.0/16\n`;

test.each([
  ['a k3s config', k3s],
  [
    'an RKE2 config with a text',
    'cluster-cidr: 10.244.0.0/16\nkube-proxy-arg+: "proxy-mode=ipvs"\nkube-proxy-arg:\n- --masquerade-all\n- ipvs_scheduler=lc\n'.replace(
      /(.*\n)(.*\n)([^]*)/,
      '$1$3$2',
    ),
  ],
  [
    'a drop-in of k3s',
    'cluster-cidr: 10.244.0.0/16\nkube-proxy-arg: [proxy-mode=ipvs, masquerade-all]\n---\nkube-proxy-arg+: [ipvs-scheduler=lc]\n',
  ],
  [
    'a DaemonSet, as on AKS',
    workload(
      'DaemonSet',
      'command: [kube-proxy, --proxy-mode=ipvs, --masquerade-all, --ipvs-scheduler, lc, "--cluster-cidr=10.244.0.0/16", "--hostname-override=$(NODE_NAME)", --v=3]',
    ),
  ],
  [
    'a static pod of a shell, as on GKE',
    workload(
      'Pod',
      'command: [/bin/sh, -c, "exec kube-proxy --cluster-cidr=10.244.0.0/16 --proxy-mode=ipvs --masquerade-all=true --ipvs-scheduler=lc 1>>/var/log/kube-proxy.log 2>&1"]',
    ),
  ],
  [
    'a static pod of RKE2',
    workload(
      'Pod',
      'command: [kube-proxy], args: [--cluster-cidr=10.244.0.0/16, --proxy-mode=ipvs, --masquerade-all=true, --ipvs-scheduler=rr, --ipvs-scheduler=lc]',
      'rancher/hardened-kubernetes:v1.34.1-rke2r1',
    ),
  ],
  [
    'arguments of the image alone',
    workload(
      'DaemonSet',
      'args: [--cluster-cidr=10.244.0.0/16, --proxy-mode=ipvs, --masquerade-all=true, --ipvs-scheduler=lc]',
    ),
  ],
])('reads the flags of %s', (_title, text) => {
  const { profile, problems } = read(text);
  expect(problems).toEqual([]);
  expect(profile).toMatchObject({
    mode: 'ipvs',
    clusterCIDR: { ipv4: '10.244.0.0/16' },
    iptables: { masqueradeAll: true },
    ipvs: { scheduler: 'lc' },
  });
});

test('reads every sort of flag', () => {
  const flags = ['nodeport-addresses=10.0.0.0/8,192.0.2.0/24', 'conntrack-min=0', 'conntrack-tcp-be-liberal=t'];
  flags.push('iptables-localhost-nodeports=false', 'feature-gates=AllowServiceExternalIPs=false,WinDSR=true');
  flags.push('conntrack-udp-timeout=90s', 'iptables-masquerade-bit=15', 'detect-local-mode=NodeCIDR');
  const { profile, problems } = read(`kube-proxy-arg: ${JSON.stringify(flags)}\n`);
  expect(problems).toEqual([]);
  expect(profile).toMatchObject({
    nodePortAddresses: ['10.0.0.0/8', '192.0.2.0/24'],
    // k3s sets maxPerCore 0, and leaves both time-outs of TCP to the kernel.
    conntrack: { min: 0, maxPerCore: 0, tcpBeLiberal: true, udpTimeout: 90, tcpEstablishedTimeout: 0 },
    iptables: { localhostNodePorts: false, masqueradeBit: 15 },
    featureGates: { AllowServiceExternalIPs: false },
    detectLocalMode: 'NodeCIDR',
    clusterCIDR: { ipv4: '10.42.0.0/16' },
  });
});

test.each([
  ['an unknown flag', 'proxy-mod=ipvs', /^CONFIG_IGNORED warning 0\.yaml:1 Cannot follow --proxy-mod: .* no flag/],
  ['a variable', '--cluster-cidr=$(PODS)', /Cannot follow --cluster-cidr: its value is a variable/],
  [
    'an invalid number',
    'iptables-masquerade-bit=x',
    /^CONFIG_INVALID error 0\.yaml:1 Cannot use iptables.masqueradeBit/,
  ],
  ['an unknown mode', 'proxy-mode=fast', /^CONFIG_INVALID error 0\.yaml:1 Cannot use mode/],
  ['a file that is not there', 'config=/etc/proxy.yaml', /Cannot follow --config: kube-proxy reads that file/],
])('names %s of k3s', (_title, flag, expected) => {
  expect(read(`kube-proxy-arg: ["${flag}"]`).problems).toEqual([expect.stringMatching(expected)]);
});

test('takes the networks and the range of a k3s server, and none of one that joins', () => {
  const server = read(
    'cluster-cidr: [10.1.0.0/16, "fd00:1::/56"]\nservice-cidr: 10.2.0.0/16\nkube-apiserver-arg: [service-node-port-range=20000-20999]\n',
  );
  expect(server.problems).toEqual([]);
  expect(server.profile?.clusterCIDR).toEqual({ ipv4: '10.1.0.0/16', ipv6: 'fd00:1::/56' });
  expect(server.config).toMatchObject({
    serviceCIDRs: { ipv4: ['10.2.0.0/16'] },
    nodePortRange: { from: 20000, to: 20999 },
  });
  expect(read('server: https://a:6443\nkube-proxy-arg: [proxy-mode=ipvs]\n').profile?.clusterCIDR).toEqual({});
  expect(read('cluster-cidr: 10.1.0.0/16\n', 'cluster-cidr: 10.2.0.0/16\n').problems).toEqual([
    'CONFIG_INVALID error 1.yaml:1 Cannot use cluster-cidr: it differs from the one at 0.yaml:1',
  ]);
});

/** Nodes with the annotations of k3s, one for each command line. */
const k3sNodes = (...lines: readonly (readonly string[])[]): string =>
  lines
    .map(
      (args, at) =>
        `apiVersion: v1\nkind: Node\nmetadata: {name: n${at}, annotations: {k3s.io/node-args: ${JSON.stringify(JSON.stringify(args))}}}\n`,
    )
    .join('---\n');
const k3sServer = ['server', '--cluster-cidr', '10.1.0.0/16', '--service-cidr=10.2.0.0/16', '--disable=traefik'];
const ipvsArg = ['--kube-proxy-arg=proxy-mode=ipvs', '--kube-proxy-arg', '--ipvs-scheduler=lc'];

test.each([
  ['a server', k3sNodes([...k3sServer, ...ipvsArg])],
  ['a server and its agents', k3sNodes([...k3sServer, ...ipvsArg], ['agent', ...ipvsArg], ['agent', ...ipvsArg])],
  ['servers, of which one joins', k3sNodes(['server', '-s', 'https://a:6443', ...ipvsArg], [...k3sServer, ...ipvsArg])],
  ['a server of RKE2', k3sNodes([...k3sServer, ...ipvsArg]).replace('k3s.io', 'rke2.io')],
])('takes the flags that %s has in the annotation of its Node', (_title, text) => {
  const { problems, profile, config } = read(text);
  expect(problems).toEqual([]);
  expect(profile).toMatchObject({ mode: 'ipvs', clusterCIDR: { ipv4: '10.1.0.0/16' }, ipvs: { scheduler: 'lc' } });
  expect(config).toMatchObject({ serviceCIDRs: { ipv4: ['10.2.0.0/16'] } });
});

test('takes what is passed besides Nodes of k3s', () => {
  const { problems, profile } = read(k3sNodes([...k3sServer, ...ipvsArg]), kubeProxy('mode: nftables\n'));
  expect(problems).toEqual([]);
  expect(profile?.mode).toBe('nftables');
});

test('names what nodes of k3s run differently, and what is no command line', () => {
  expect(read(k3sNodes([...k3sServer, ...ipvsArg], ['agent'])).problems).toEqual([
    expect.stringMatching(
      /^CONFIG_IGNORED warning 0\.yaml:7 .*: Node n1 has other flags .* than Node n0 \(0\.yaml:3\)$/,
    ),
  ]);
  expect(read(k3sNodes(['agent'], [...k3sServer, ...ipvsArg])).profile?.mode).toBe('ipvs');
  expect(read(k3sNodes(['agent', ...ipvsArg])).profile?.clusterCIDR).toEqual({});
  expect(read(k3sNodes(['etcd-snapshot'])).problems).toEqual([
    expect.stringMatching(/^CONFIG_IGNORED warning 0\.yaml:3 .*node-args"\]: it is not the command line/),
  ]);
});

const cluster = (more: string, version = 'v1beta4'): string =>
  `apiVersion: kubeadm.k8s.io/${version}\nkind: ClusterConfiguration\n${more}`;
const networks = 'kubernetesVersion: v1.32.1\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.97.0.0/16}\n';

test.each([
  ['alone', [cluster(networks)]],
  ['beside a KubeProxyConfiguration', [`${cluster(networks)}---\n${kubeProxy('mode: iptables\n')}`]],
  [
    'beside an InitConfiguration',
    [`apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\n${cluster(networks)}`],
  ],
  ['in its ConfigMap', [configMap('kubeadm-config', 'ClusterConfiguration', cluster(networks))]],
  ['of an old version', [cluster(networks, 'v1beta1')]],
  ['with a label as its version', [cluster(networks.replace('v1.32.1', 'stable-1.32'))]],
])("takes over the version and networks of kubeadm's ClusterConfiguration %s", (_title, texts) => {
  const { profile, config, problems, loaded } = read(...texts);
  expect([problems, [...loaded.ignored]]).toEqual([[], []]);
  expect(profile).toMatchObject({ kubeProxyVersion: '1.32', clusterCIDR: { ipv4: '10.244.0.0/16' } });
  expect(config.serviceCIDRs).toEqual({ ipv4: ['10.97.0.0/16'] });
});

test.each([
  ['a map', 'apiServer: {extraArgs: {service-node-port-range: 20000-20999}}\n'],
  ['a list', 'apiServer: {extraArgs: [{name: service-node-port-range, value: 20000-20999}]}\n'],
])('takes over the range of node ports from arguments of the API server in %s', (_title, text) => {
  expect(read(cluster(text)).config.nodePortRange).toEqual({ from: 20000, to: 20999 });
});

test('a configuration that runs has all of kubeadm already', () => {
  const running = configMap('kube-proxy', 'config.conf', kubeProxy('mode: iptables\nclusterCIDR: ""\n'));
  expect(read(cluster(networks), running).profile?.clusterCIDR).toEqual({});
});

test.each([
  [
    'two clusters of kubeadm',
    [cluster(networks), cluster('networking: {podSubnet: 10.9.0.0/16}\n')],
    /^CONFIG_INVALID error 1\.yaml:3 Cannot use networking\.podSubnet of ClusterConfiguration: it is "10\.9\.0\.0\/16" here/,
  ],
  [
    'a pod network that kubeadm does not copy',
    [`${cluster(networks)}---\n${kubeProxy('clusterCIDR: 10.9.0.0/16\n')}`],
    /^CONFIG_IGNORED warning 0\.yaml:4 .*podSubnet of ClusterConfiguration: clusterCIDR of KubeProxyConfiguration is 10\.9/,
  ],
  [
    'a version that is not known',
    [cluster('kubernetesVersion: v1.20.1\n')],
    /^CONFIG_IGNORED warning 0\.yaml:3 .*"v1\.20\.1" names no version/,
  ],
  ['a network that is none', [cluster('networking: {podSubnet: x}\n')], /^CONFIG_IGNORED warning .*"x" is not a CIDR/],
  [
    'two ConfigMaps',
    [configMap('kube-proxy', 'config.conf', kubeProxy('')), configMap('kube-proxy-config', 'config', ipvs)],
    /^CONFIG_INVALID error 1\.yaml:8 Cannot use it: it differs from KubeProxyConfiguration at 0\.yaml:6: mode is "ipvs" here, and "iptables" there/,
  ],
  [
    'a ConfigMap and flags',
    [
      configMap('kube-proxy', 'config.conf', ipvs),
      workload('DaemonSet', 'command: [kube-proxy, --proxy-mode=iptables]'),
    ],
    /^CONFIG_INVALID error 1\.yaml:4 .*differs from KubeProxyConfiguration at 0\.yaml:6: mode is "iptables" here/,
  ],
  [
    'two values of one ConfigMap',
    [`${configMap('a', 'one', ipvs)}  two: |\n${indent(kubeProxy(''))}`],
    /^CONFIG_INVALID error .*mode is "iptables" here/,
  ],
])('reports the contradiction of %s', (_title, texts, expected) => {
  expect(read(...texts).problems).toEqual([expect.stringMatching(expected)]);
});

test.each([
  [
    'other fields without an effect',
    [configMap('a', 'c', `${ipvs}enableProfiling: true\n`), configMap('b', 'c', ipvs)],
  ],
  [
    'the same in flags',
    [configMap('a', 'c', kubeProxy('mode: ipvs\n')), workload('Pod', 'command: [kube-proxy, --proxy-mode=ipvs]')],
  ],
  [
    'flags that kube-proxy does not read beside a file',
    [configMap('a', 'c', ipvs), workload('Pod', 'command: [kube-proxy, --config=/c, --proxy-mode=iptables]')],
  ],
  [
    'a container that only cleans up',
    [configMap('a', 'c', ipvs), workload('Pod', 'command: [kube-proxy, --cleanup, --proxy-mode=iptables]')],
  ],
])('accepts two sources with %s', (_title, texts) => {
  expect(read(...texts).problems).toEqual([]);
  expect(read(...texts).profile?.mode).toBe('ipvs');
});

test('sets the configuration of nodes with Windows apart, with a note', () => {
  const windows = configMap('kube-proxy-windows', 'config.conf', kubeProxy('mode: kernelspace\n'));
  const { profile, problems } = read(windows, configMap('kube-proxy', 'config.conf', ipvs));
  expect(profile?.mode).toBe('ipvs');
  expect(problems).toEqual([expect.stringMatching(/^CONFIG_IGNORED note 0\.yaml:6 .*mode kernelspace/)]);
});

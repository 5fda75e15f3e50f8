import { expect, test } from 'vitest';
import { readConfig } from './config.ts';
import { readText } from './text.ts';
import type { KubeProxyInput } from './kube-proxy-sources.ts';
import type { JsonObject } from '../../render/model/kube.ts';

const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

function input(text: string, file = 'proxy.yaml'): KubeProxyInput {
  const { value, origin } = readText(file, text);
  return { value: value as JsonObject, origin, text };
}

const read = (kubeProxy: string, profile?: string) =>
  readConfig({
    ...(profile !== undefined && {
      sluice: {
        file: 'sluice.yaml',
        text: `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles:\n- name: p\n  ${profile}\n`,
      },
    }),
    kubeProxy: [input(head + kubeProxy)],
  });

/** The ConfigMap of kubeadm: it has every field, most of them unset. */
const kubeadm = `apiVersion: v1
kind: ConfigMap
metadata: { name: kube-proxy, namespace: kube-system }
data:
  config.conf: |-
    apiVersion: kubeproxy.config.k8s.io/v1alpha1
    bindAddress: 0.0.0.0
    bindAddressHardFail: false
    clientConnection:
      acceptContentTypes: ""
      burst: 0
      contentType: ""
      kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
      qps: 0
    clusterCIDR: 10.244.0.0/16
    configSyncPeriod: 0s
    conntrack:
      maxPerCore: null
      min: null
      tcpBeLiberal: false
      tcpCloseWaitTimeout: null
      tcpEstablishedTimeout: null
      udpStreamTimeout: 0s
      udpTimeout: 0s
    detectLocal:
      bridgeInterface: ""
      interfaceNamePrefix: ""
    detectLocalMode: ""
    enableProfiling: false
    healthzBindAddress: ""
    hostnameOverride: ""
    iptables:
      localhostNodePorts: null
      masqueradeAll: false
      masqueradeBit: null
      minSyncPeriod: 0s
      syncPeriod: 0s
    ipvs:
      excludeCIDRs: null
      minSyncPeriod: 0s
      scheduler: ""
      strictARP: false
      syncPeriod: 0s
      tcpFinTimeout: 0s
      tcpTimeout: 0s
      udpTimeout: 0s
    kind: KubeProxyConfiguration
    logging:
      flushFrequency: 0
      options:
        json: { infoBufferSize: "0" }
        text: { infoBufferSize: "0" }
      verbosity: 0
    metricsBindAddress: ""
    mode: ""
    nftables:
      masqueradeAll: false
      masqueradeBit: null
      minSyncPeriod: 0s
      syncPeriod: 0s
    nodePortAddresses: null
    oomScoreAdj: null
    portRange: ""
    showHiddenMetricsForVersion: ""
    winkernel:
      enableDSR: false
      forwardHealthCheckVip: false
      networkName: ""
      rootHnsEndpointName: ""
      sourceVip: ""
  kubeconfig.conf: |-
    apiVersion: v1
`;

test("reads kubeadm's ConfigMap as the defaults plus its clusterCIDR", () => {
  const plain = readConfig({ kubeProxy: [] }).config;
  const { config, problems } = readConfig({ kubeProxy: [input(kubeadm, 'cm.yaml')] });
  expect(problems).toEqual([]);
  expect(config).toEqual({ ...plain, profiles: [{ ...plain.profiles[0], clusterCIDR: { ipv4: '10.244.0.0/16' } }] });
});

test.each([['primary'], ['localhost'], ['all'], ['primary, localhost'], ['localhost, 10.0.0.0/8, primary']])(
  "accepts node ports on %s, in kube-proxy's configuration and in a profile",
  (list) => {
    const text = `nodePortAddresses: [${list}]`;
    for (const { config, problems } of [read(text), read('', text)]) {
      expect(problems).toEqual([]);
      expect(config.profiles[0]?.nodePortAddresses).toEqual(list.split(', '));
    }
  },
);

test("applies kube-proxy's configuration to every profile without its own value", () => {
  const text = `iptables: { masqueradeBit: 15, localhostNodePorts: false }\nconntrack: { tcpEstablishedTimeout: 1h }\nnodePortAddresses: [primary]\n`;
  const { config, problems } = read(text, 'nodeSelector: { matchLabels: { a: b } }');
  expect(problems).toEqual([]);
  expect(config.profiles).toHaveLength(2);
  for (const profile of config.profiles) {
    expect(profile).toMatchObject({
      iptables: { masqueradeBit: 15, localhostNodePorts: false },
      conntrack: { tcpEstablishedTimeout: 3600 },
      nodePortAddresses: ['primary'],
    });
  }
});

test('prefers sluice.yaml, with a note on each difference with both values and places', () => {
  const { config, problems } = read(
    'iptables:\n  masqueradeBit: 15\n  masqueradeAll: true\n',
    'iptables: { masqueradeBit: 16 }',
  );
  expect(config.profiles[0]?.iptables).toMatchObject({ masqueradeBit: 16, masqueradeAll: true });
  expect(problems).toMatchObject([
    { code: 'CONFIG_OVERRIDES', level: 'note', at: { file: 'sluice.yaml', line: 5, column: 30 }, object: 'Profile p' },
  ]);
  expect(problems[0]?.message).toContain('16 here overrides 15 of KubeProxyConfiguration at proxy.yaml:4');
});

test.each([
  ['a duration in another form', 'conntrack: { udpTimeout: 90s }', 'conntrack: { udpTimeout: 1m30s }'],
  ['a CIDR in another spelling', 'clusterCIDR: FD00:0::/56', 'clusterCIDR: fd00::/56'],
  ['the same list', 'nodePortAddresses: [10.0.0.0/8]', 'nodePortAddresses: [10.0.0.0/8]'],
  ['an unset field of kube-proxy', 'mode: ""', 'mode: iptables'],
])('accepts %s as equal', (_title, kubeProxy, profile) => {
  expect(read(kubeProxy, profile).problems).toEqual([]);
});

test('accepts an unsupported mode that sluice.yaml overrides', () => {
  expect(read('mode: ipvs', 'mode: iptables').problems.map(({ code }) => code)).toEqual(['CONFIG_OVERRIDES']);
});

test.each([
  ['an unknown field', 'udpIdleTimeout: 250ms', 'CONFIG_INVALID warning 3:17'],
  ['mode userspace', 'mode: userspace', 'CONFIG_UNSUPPORTED error 3:7'],
  ['mode ipvs', 'mode: ipvs', 'MODE_DEPRECATED note 3:7'],
  [
    'an unknown scheduler',
    'mode: ipvs\nipvs: { scheduler: wrrr }',
    'MODE_DEPRECATED note 3:7,CONFIG_INVALID error 4:20',
  ],
  [
    'a timeout beyond the maximum of IPVS',
    'mode: ipvs\nipvs: { udpTimeout: 745h }',
    'MODE_DEPRECATED note 3:7,CONFIG_INVALID error 4:21',
  ],
  ['mode kernelspace', 'mode: kernelspace', 'CONFIG_UNSUPPORTED error 3:7'],
  ['an unknown mode', 'mode: iptable', 'CONFIG_INVALID error 3:7'],
  ['a bit out of range', 'iptables: { masqueradeBit: 32 }', 'CONFIG_INVALID error 3:28'],
  ['a score out of range', 'oomScoreAdj: 1001', 'CONFIG_INVALID error 3:14'],
  ['a negative period', 'iptables: { syncPeriod: -1s }', 'CONFIG_INVALID error 3:25'],
  ['a minimum above the period', 'iptables: { minSyncPeriod: 31s }', 'CONFIG_INVALID error 3:28'],
  ['the same in nftables', 'nftables: { syncPeriod: 5s, minSyncPeriod: 6s }', 'CONFIG_INVALID error 3:44'],
  ['a period that is a number', 'configSyncPeriod: 900', 'CONFIG_INVALID error 3:19'],
  ['an invalid address', 'bindAddress: localhost', 'ADDRESS_INVALID error 3:14'],
  ['a host name as health address', 'healthzBindAddress: localhost:10256', 'ADDRESS_INVALID error 3:21'],
  ['a metrics port out of range', 'metricsBindAddress: "[::1]:70000"', 'CONFIG_INVALID error 3:21'],
  ['an invalid CIDR', 'ipvs: { excludeCIDRs: [10.0.0.0] }', 'ADDRESS_INVALID error 3:24'],
  ['three cluster CIDRs', 'clusterCIDR: 10.1.0.0/16,fd00::/56,fd01::/56', 'ADDRESS_INVALID error 3:14'],
  ['an unknown detector', 'detectLocalMode: NodeCIDRs', 'CONFIG_INVALID error 3:18'],
  ['a bridge mode without a bridge', 'detectLocalMode: BridgeInterface', 'CONFIG_INVALID error 3:18'],
  ['a negative table size', 'conntrack: { min: -1 }', 'CONFIG_INVALID error 3:19'],
  ['a feature gate that is not a boolean', 'featureGates: { A: "true" }', 'CONFIG_INVALID error 3:20'],
  ['an unknown word', 'nodePortAddresses: [localhosts]', 'ADDRESS_INVALID error 3:21'],
  ['a duplicate word', 'nodePortAddresses: [primary, 10.0.0.0/8, primary]', 'CONFIG_INVALID error 3:42'],
])('reports %s at its place', (_title, text, expected) => {
  expect(
    read(text)
      .problems.map(({ code, level, at }) => `${code} ${level} ${at?.line}:${at?.column}`)
      .join(','),
  ).toBe(expected);
});

/** All problems, one per line. */
const warningsOf = (text: string): string =>
  read(text)
    .problems.map(({ code, level, at, message }) => `${code} ${level} ${at?.line}:${at?.column} ${message}`)
    .join('\n');

const periods =
  'sluiced applies a bundle as soon as it changes, and checks for drift at every event and at its own interval';

test.each([
  [
    'a score of the process',
    'oomScoreAdj: -998',
    '3:14 Cannot follow oomScoreAdj: it is for the process of kube-proxy, and sluiced has its own setting',
  ],
  [
    'a name of the node',
    'hostnameOverride: a',
    '3:19 Cannot follow hostnameOverride: each node sets its name in its own config',
  ],
  [
    'an address of the node',
    'bindAddress: 192.0.2.1',
    '3:14 Cannot follow bindAddress: the address of a node is that of its Node object',
  ],
  [
    'another port for health',
    'healthzBindAddress: 0.0.0.0:10300',
    '3:21 Cannot follow healthzBindAddress: sluiced has its own setting for the health endpoint',
  ],
  [
    'two periods for one cause',
    'iptables: { syncPeriod: 1m, minSyncPeriod: 10s }',
    `3:25 Cannot follow iptables.syncPeriod, iptables.minSyncPeriod: ${periods}`,
  ],
  [
    'unknown gates',
    `featureGates:\n${[1, 2, 3, 4, 5, 6, 7].map((index) => `  Gate${index}Of7: true\n`).join('')}`,
    `4:13 Cannot follow ${[1, 2, 3, 4, 5].map((index) => `featureGates.Gate${index}Of7`).join(', ')} and 2 more: kube-proxy has no feature gate of this name`,
  ],
  [
    'a locked gate',
    'featureGates: { PreferSameTrafficDistribution: false }',
    '3:48 Cannot follow featureGates.PreferSameTrafficDistribution: hints for nodes are always used, like in kube-proxy since 1.35',
  ],
])('warns of %s', (_title, text, expected) => {
  expect(warningsOf(text)).toBe(`CONFIG_IGNORED warning ${expected}`);
});

test('suggests a gate with a similar name', () => {
  const { problems } = read('featureGates: { GracefulNodeShutdown: true, AllowServiceExternalIP: false }');
  expect(problems.map(({ message, hint }) => [message.split(':')[0], hint])).toEqual([
    ['Cannot follow featureGates.GracefulNodeShutdown', 'Check its spelling, or remove it'],
    ['Cannot follow featureGates.AllowServiceExternalIP', 'Did you mean AllowServiceExternalIPs?'],
  ]);
});

test.each([
  ["kube-proxy's defaults, written out", 'oomScoreAdj: -999\niptables: { syncPeriod: 30s, minSyncPeriod: 1000ms }'],
  ['health at the default port', 'healthzBindAddress: "[::]:10256"'],
  ['periods of another mode', 'ipvs: { minSyncPeriod: 10s }\nnftables: { masqueradeAll: true, syncPeriod: 1m }'],
  ['gates with the supported values', 'featureGates: { KubeProxyIPVS: false, PreferSameTrafficDistribution: true }'],
  [
    'gates of other modes',
    'featureGates: { NFTablesNetlink: false, WinDSR: false, AllAlpha: true, ContextualLogging: false }',
  ],
  [
    'fields that affect only the process',
    'metricsBindAddress: 0.0.0.0:10249\nenableProfiling: true\nclientConnection: { qps: 50 }',
  ],
])('does not warn of %s', (_title, text) => {
  expect(warningsOf(text)).toBe('');
});

test('reads mode nftables with its options; those of mode iptables have no effect', () => {
  const text =
    'mode: nftables\nnftables: { masqueradeBit: 15, masqueradeAll: true }\niptables: { masqueradeAll: false }';
  const { config, problems } = read(text);
  expect(problems.map(({ code }) => code)).toEqual(['MODE_NEEDS_SLUICED']);
  expect(config.profiles).toMatchObject([{ mode: 'nftables', nftables: { masqueradeAll: true } }]);
});

test('takes the gate for node ports on localhost', () => {
  const gate = 'featureGates: { KubeProxyNFTablesLocalhostNodePorts: true }';
  const { config, problems } = read(`mode: nftables\n${gate}`);
  expect(problems.map(({ code }) => code)).toEqual(['MODE_NEEDS_SLUICED']);
  expect(config.profiles).toMatchObject([{ featureGates: { KubeProxyNFTablesLocalhostNodePorts: true } }]);
});

test.each([
  ['1.38', '1.38', ['NFTablesProxyMode', 'MultiCIDRServiceAllocator', 'PreferSameTrafficDistribution']],
  ['1.37', '1.37', []],
  ['1.28', '1.28', []],
])('warns of gates that kube-proxy %s does not start with', (_title, version, expected) => {
  const named = 'NFTablesProxyMode: true, MultiCIDRServiceAllocator: true, PreferSameTrafficDistribution: true';
  const { problems } = read(
    `mode: iptables\nfeatureGates: { ${named}, WinDSR: true }`,
    `kubeProxyVersion: "${version}"`,
  );
  expect(problems.map(({ code, level, message }) => [code, level, message])).toEqual(
    expected.map((gate) => [
      'CONFIG_IGNORED',
      'warning',
      `Cannot follow featureGates.${gate}: kube-proxy 1.38 does not start with it, and profile p follows 1.38`,
    ]),
  );
});

test("warns of removed gates in flags, and of a version that kubeadm's configuration names", () => {
  const flags = 'kube-proxy-arg: [feature-gates=NFTablesProxyMode=true]\n';
  const beta = 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.38.0-beta.0\n';
  const { config, problems } = readConfig({ kubeProxy: [input(flags, 'k3s.yaml'), input(beta, 'kubeadm.yaml')] });
  expect(config.profiles[0]?.kubeProxyVersion).toBe('1.38');
  expect(problems).toMatchObject([{ code: 'CONFIG_IGNORED', level: 'warning', at: { file: 'k3s.yaml', line: 1 } }]);
});

test('warns of the gate for mode ipvs only in mode ipvs', () => {
  const codes = read('mode: ipvs\nfeatureGates: { KubeProxyIPVS: false }').problems.map(({ code }) => code);
  expect(codes).toEqual(['CONFIG_IGNORED', 'MODE_DEPRECATED']);
});

test('applies the feature gate for external IPs to every profile, and sluice.yaml overrides it', () => {
  const off = 'featureGates: { AllowServiceExternalIPs: false }';
  const gatesOf = (profile?: string) => read(off, profile).config.profiles.map(({ featureGates }) => featureGates);
  expect(gatesOf('nodeSelector: { matchLabels: { a: b } }')).toEqual(
    Array.from({ length: 2 }, () => ({ AllowServiceExternalIPs: false })),
  );
  expect(gatesOf('featureGates: { AllowServiceExternalIPs: true }')[0]).toEqual({ AllowServiceExternalIPs: true });
  expect(warningsOf(off)).toBe('');
});

test('refuses another version of the format', () => {
  const { problems } = readConfig({
    kubeProxy: [input('apiVersion: kubeproxy.config.k8s.io/v1alpha2\nkind: KubeProxyConfiguration')],
  });
  expect(problems).toMatchObject([{ code: 'CONFIG_INVALID', at: { line: 1, column: 13 } }]);
});

const configMap = (body: string): string => `kind: ConfigMap\ndata:\n  config.conf: ${body}`;
const inner = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\noomScoreAdj: 2000\n';
const indented = (text: string): string => text.replaceAll(/^(?=.)/gm, '    ');

test.each([
  ['a literal block', configMap(`|\n${indented(inner)}`), '6:18'],
  ['a literal block that begins with an empty line', configMap(`|-\n\n${indented(inner)}`), '7:18'],
  ['a quoted string, which has no lines of its own', configMap(JSON.stringify(inner)), '3:16'],
  [
    'a folded block, whose lines differ from the text',
    configMap(`>\n${indented(inner).replaceAll('\n', '\n\n')}`),
    '3:16',
  ],
])('finds places inside a ConfigMap in %s', (_title, text, expected) => {
  const { problems } = readConfig({ kubeProxy: [input(text, 'cm.yaml')] });
  expect(problems.map(({ at }) => `${at?.file} ${at?.line}:${at?.column}`)).toEqual([`cm.yaml ${expected}`]);
});

test('reports invalid YAML inside a ConfigMap at its line', () => {
  const { problems } = readConfig({
    kubeProxy: [input(configMap(`|\n${indented(`${inner}oomScoreAdj: 3\n`)}`), 'cm.yaml')],
  });
  expect(problems).toMatchObject([{ code: 'YAML_DUPLICATE_KEY', at: { file: 'cm.yaml', line: 7, column: 5 } }]);
});

test.each([
  ['a list', configMap('"[KubeProxyConfiguration]"')],
  ['a comment', configMap('"# KubeProxyConfiguration"')],
  ['a script', configMap('"cat <<E\\n  kind: KubeProxyConfiguration\\n  a: [\\nE"')],
])('warns of a ConfigMap that names a KubeProxyConfiguration in %s, and has none', (_title, text) => {
  const { problems } = readConfig({ kubeProxy: [input(text)] });
  expect(problems).toMatchObject([{ code: 'CONFIG_IGNORED', level: 'warning', at: { line: 3 } }]);
});

test('accepts two equal configurations and refuses different ones with both places', () => {
  const [one, same, other] = [
    'mode: iptables\nclusterCIDR: 10.1.0.0/16\n',
    'clusterCIDR: 10.1.0.0/16\nmode: iptables\n',
    'mode: iptables\n',
  ];
  expect(readConfig({ kubeProxy: [input(head + one, 'a'), input(head + same, 'b')] }).problems).toEqual([]);
  const { problems } = readConfig({ kubeProxy: [input(head + one, 'a'), input(head + other, 'b')] });
  expect(problems).toMatchObject([{ code: 'CONFIG_INVALID', level: 'error', at: { file: 'b', line: 1 } }]);
  expect(problems[0]?.message).toContain('a:1');
});

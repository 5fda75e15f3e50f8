import { expect, test } from 'vitest';
import type { Profile } from '../../render/model/config.ts';
import { readConfig } from './config.ts';

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\n';
const read = (body: string) => readConfig({ sluice: { file: 'sluice.yaml', text: head + body }, kubeProxy: [] });

/** The default profile, with kube-proxy's own defaults. */
const defaultProfile: Profile = {
  name: 'default',
  nodeSelector: {},
  mode: 'iptables',
  families: ['ipv4', 'ipv6'],
  featureGates: { AllowServiceExternalIPs: true },
  iptables: { masqueradeBit: 14, masqueradeAll: false, localhostNodePorts: true, randomFully: true },
  detectLocalMode: 'ClusterCIDR',
  detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
  clusterCIDR: {},
  nodePortAddresses: [],
  conntrack: {
    maxPerCore: 32768,
    min: 131072,
    tcpEstablishedTimeout: 86400,
    tcpCloseWaitTimeout: 3600,
    udpTimeout: 0,
    udpStreamTimeout: 0,
    tcpBeLiberal: false,
  },
  sysctls: {},
};

test('uses defaults without a config', () => {
  expect(readConfig({ kubeProxy: [] })).toEqual({
    config: {
      clusterName: 'kubernetes',
      complete: false,
      profiles: [defaultProfile],
      serviceCIDRs: { ipv4: ['10.96.0.0/12'] },
      primaryFamily: 'ipv4',
      nodePortRange: { from: 30000, to: 32767 },
      named: { serviceCIDRs: false, nodePortRange: false },
      nodes: [],
    },
    problems: [],
  });
});

test('reads every field of a config', () => {
  const { config, problems } = read(`
clusterName: shop
complete: true
serviceCIDRs: ["FD00:96::/108", 10.96.0.7/16]
nodePortRange: 31000-31999
nodes:
  - name: b
  - { name: a, labels: { zone: x, pool: edge }, addresses: ["FD00::1"], podCIDRs: [10.244.1.0/24], cores: 4 }
profiles:
  - name: edge
    nodeSelector:
      matchLabels: { pool: edge }
      matchExpressions: [{ key: topology.kubernetes.io/zone, operator: NotIn, values: [a] }]
    families: [ipv6, ipv4]
    mode: iptables
    featureGates: { AllowServiceExternalIPs: false }
    iptables: { masqueradeBit: 31, masqueradeAll: true, localhostNodePorts: false, randomFully: false }
    detectLocalMode: InterfaceNamePrefix
    detectLocal: { interfaceNamePrefix: cali }
    clusterCIDR: 10.244.0.0/16,FD00:10::/56
    nodePortAddresses: [192.0.2.1/24, 192.0.2.0/24]
    conntrack:
      maxPerCore: 0
      min: 0
      tcpEstablishedTimeout: 1h30m
      tcpCloseWaitTimeout: 0s
      udpTimeout: 90s
      udpStreamTimeout: 3m0s
      tcpBeLiberal: true
    sysctls: { net.ipv6.conf.all.forwarding: "1", net.ipv4.ip_forward: 1 }
`);
  expect(problems).toEqual([]);
  expect(config).toEqual({
    clusterName: 'shop',
    complete: true,
    serviceCIDRs: { ipv4: ['10.96.0.0/16'], ipv6: ['fd00:96::/108'] },
    primaryFamily: 'ipv6',
    nodePortRange: { from: 31000, to: 31999 },
    named: { serviceCIDRs: true, nodePortRange: true },
    nodes: [
      { name: 'a', labels: { pool: 'edge', zone: 'x' }, addresses: ['fd00::1'], podCIDRs: ['10.244.1.0/24'], cores: 4 },
      { name: 'b', labels: {}, addresses: [], podCIDRs: [] },
    ],
    profiles: [
      {
        name: 'edge',
        nodeSelector: {
          matchLabels: { pool: 'edge' },
          matchExpressions: [{ key: 'topology.kubernetes.io/zone', operator: 'NotIn', values: ['a'] }],
        },
        mode: 'iptables',
        families: ['ipv4', 'ipv6'],
        featureGates: { AllowServiceExternalIPs: false },
        iptables: { masqueradeBit: 31, masqueradeAll: true, localhostNodePorts: false, randomFully: false },
        detectLocalMode: 'InterfaceNamePrefix',
        detectLocal: { bridgeInterface: '', interfaceNamePrefix: 'cali' },
        clusterCIDR: { ipv4: '10.244.0.0/16', ipv6: 'fd00:10::/56' },
        nodePortAddresses: ['192.0.2.0/24'],
        conntrack: {
          maxPerCore: 0,
          min: 0,
          tcpEstablishedTimeout: 5400,
          tcpCloseWaitTimeout: 0,
          udpTimeout: 90,
          udpStreamTimeout: 180,
          tcpBeLiberal: true,
        },
        sysctls: { 'net.ipv4.ip_forward': '1', 'net.ipv6.conf.all.forwarding': '1' },
      },
      defaultProfile,
    ],
  });
});

test('reads JSON as well', () => {
  const text = JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', clusterName: 'shop' });
  const { config, problems } = readConfig({ sluice: { file: 'sluice.json', text }, kubeProxy: [] });
  expect([config.clusterName, problems]).toEqual(['shop', []]);
});

const profile = (text: string): string => `profiles:\n- name: p\n  ${text}\n`;
const node = (text: string): string => `nodes:\n- name: n\n  ${text}\n`;
const codeAndPlace = (body: string): string[] =>
  read(body).problems.map(({ code, at }) => `${code} ${at?.line}:${at?.column}`);

test.each([
  ['an unknown field', 'clusterNme: shop', 'CONFIG_INVALID 3:1'],
  ['an unknown field of a profile', profile('iptables: { masqueradAll: true }'), 'CONFIG_INVALID 5:15'],
  ['a field of kube-proxy without an effect on rules', profile('oomScoreAdj: 0'), 'CONFIG_INVALID 5:3'],
  ['a duplicate field', 'clusterName: a\nclusterName: b', 'YAML_DUPLICATE_KEY 4:1'],
  ['broken YAML', 'clusterName: [a', 'YAML_SYNTAX 3:16'],
  ['a second document', '---\nkind: SluiceConfig', 'YAML_SYNTAX 3:1'],
  ['an empty field', 'profiles:', 'CONFIG_INVALID 3:1'],
  ['a YAML 1.1 boolean', 'complete: yes', 'CONFIG_INVALID 3:11'],
  ['a name with a line break', 'clusterName: "a\\nb"', 'CONFIG_INVALID 3:14'],
  ['a CIDR without its prefix', 'serviceCIDRs: [10.96.0.0]', 'ADDRESS_INVALID 3:16'],
  ['a CIDR with leading zeros', 'serviceCIDRs: [010.96.0.0/12]', 'ADDRESS_INVALID 3:16'],
  ['two service CIDRs of one family', 'serviceCIDRs: [10.96.0.0/12, 10.112.0.0/12]', 'ADDRESS_INVALID 3:30'],
  ['no service CIDR', 'serviceCIDRs: []', 'CONFIG_INVALID 3:15'],
  ['a port range that ends before it starts', 'nodePortRange: 32767-30000', 'CONFIG_INVALID 3:16'],
  ['a port range beyond 65535', 'nodePortRange: 30000-70000', 'CONFIG_INVALID 3:16'],
  ['one port as a range', 'nodePortRange: 30000', 'CONFIG_INVALID 3:16'],
  ['a node without a name', 'nodes:\n- cores: 1', 'CONFIG_INVALID 4:3'],
  ['a node name with ..', 'nodes:\n- name: ../x', 'CONFIG_INVALID 4:9'],
  ['a duplicate node', 'nodes:\n- name: n\n- name: n', 'CONFIG_INVALID 5:9'],
  ['a bad label key', node('labels: { "a b": c }'), 'CONFIG_INVALID 5:13'],
  ['a bad label value', node('labels: { a: "b c" }'), 'CONFIG_INVALID 5:16'],
  ['an address with a prefix', node('addresses: [192.0.2.1/24]'), 'ADDRESS_INVALID 5:15'],
  ['an IPv4-mapped address', node('addresses: ["::ffff:10.0.0.1"]'), 'ADDRESS_INVALID 5:15'],
  ['two pod CIDRs of one family', node('podCIDRs: [10.1.0.0/24, 10.2.0.0/24]'), 'CONFIG_INVALID 5:13'],
  ['half a core', node('cores: 0.5'), 'CONFIG_INVALID 5:10'],
  ['a profile without a name', 'profiles:\n- mode: iptables', 'CONFIG_INVALID 4:3'],
  [
    'a duplicate profile',
    'profiles:\n- { name: p, nodeSelector: { matchLabels: { a: b } } }\n- name: p',
    'CONFIG_INVALID 5:9',
  ],
  ['an unreachable profile', 'profiles:\n- name: p\n- name: q', 'CONFIG_INVALID 5:9'],
  [
    'the built-in name with a selector',
    profile('nodeSelector: { matchLabels: { a: b } }').replace('p\n', 'default\n'),
    'CONFIG_INVALID 4:9',
  ],
  [
    'an unknown operator',
    profile('nodeSelector: { matchExpressions: [{ key: a, operator: in }] }'),
    'CONFIG_INVALID 5:58',
  ],
  [
    'In without values',
    profile('nodeSelector: { matchExpressions: [{ key: a, operator: In }] }'),
    'CONFIG_INVALID 5:38',
  ],
  [
    'Exists with values',
    profile('nodeSelector: { matchExpressions: [{ key: a, operator: Exists, values: [b] }] }'),
    'CONFIG_INVALID 5:74',
  ],
  ['mode userspace', profile('mode: userspace'), 'CONFIG_UNSUPPORTED 5:9'],
  ['mode ipvs', profile('mode: ipvs'), 'MODE_DEPRECATED 5:9'],
  ['no mode with kube-proxy 1.38, which complains of it', profile('kubeProxyVersion: "1.38"'), 'MODE_BY_DEFAULT 4:9'],
  ['an unknown scheduler', profile('ipvs: { scheduler: wcl }'), 'CONFIG_INVALID 5:22'],
  ['an invalid network', profile('ipvs: { excludeCIDRs: [10.0.0.1] }'), 'ADDRESS_INVALID 5:26'],
  ['a negative timeout', profile('ipvs: { tcpTimeout: -1s }'), 'CONFIG_INVALID 5:23'],
  ['mode kernelspace', profile('mode: kernelspace'), 'CONFIG_UNSUPPORTED 5:9'],
  ['mode nftables', profile('mode: nftables'), 'MODE_NEEDS_SLUICED 5:9'],
  ['an unknown mode', profile('mode: iptable'), 'CONFIG_INVALID 5:9'],
  ['no family', profile('families: []'), 'CONFIG_INVALID 5:13'],
  ['a bit beyond a mark', profile('iptables: { masqueradeBit: 32 }'), 'CONFIG_INVALID 5:30'],
  ['a bit as text', profile('iptables: { masqueradeBit: "14" }'), 'CONFIG_INVALID 5:30'],
  ['the bridge mode without a bridge', profile('detectLocalMode: BridgeInterface'), 'CONFIG_INVALID 5:20'],
  [
    'a bridge name with rule options',
    profile('detectLocal: { bridgeInterface: "a -j ACCEPT" }'),
    'CONFIG_INVALID 5:35',
  ],
  ['a prefix with a plus', profile('detectLocal: { interfaceNamePrefix: cali+ }'), 'CONFIG_INVALID 5:39'],
  ['two cluster CIDRs of one family', profile('clusterCIDR: 10.1.0.0/16,10.2.0.0/16'), 'ADDRESS_INVALID 5:16'],
  ['an address instead of a CIDR', profile('nodePortAddresses: [10.0.0.1]'), 'ADDRESS_INVALID 5:23'],
  ['a number instead of a duration', profile('conntrack: { udpTimeout: 30 }'), 'CONFIG_INVALID 5:28'],
  ['a duration without a unit', profile('conntrack: { udpTimeout: "30" }'), 'CONFIG_INVALID 5:28'],
  ['a negative duration', profile('conntrack: { udpTimeout: -30s }'), 'CONFIG_INVALID 5:28'],
  ['a fraction of a second', profile('conntrack: { udpTimeout: 1500ms }'), 'CONFIG_INVALID 5:28'],
  ['a timeout beyond thirty days', profile('conntrack: { udpTimeout: 721h }'), 'SYSCTL_NOT_ALLOWED 5:28'],
  ['a sysctl that is not allowed', profile('sysctls: { kernel.panic: 1 }'), 'SYSCTL_NOT_ALLOWED 5:12'],
  ['a sysctl value out of range', profile('sysctls: { net.ipv4.ip_forward: 2 }'), 'SYSCTL_NOT_ALLOWED 5:12'],
  ['a list instead of a mapping', 'profiles:\n- []', 'CONFIG_INVALID 4:3'],
])('reports %s at its place', (_title, body, expected) => {
  expect(codeAndPlace(body)).toEqual([expected]);
});

test('warns of options of mode iptables in a profile of mode nftables', () => {
  const iptables = 'iptables: { masqueradeAll: true, localhostNodePorts: false, masqueradeBit: 14 }';
  const { problems } = read(profile(`mode: nftables\n  ${iptables}`));
  expect(problems.map(({ code, message }) => `${code} ${message}`)).toContain(
    'CONFIG_IGNORED Cannot follow profiles[0].iptables.masqueradeAll, profiles[0].iptables.localhostNodePorts: options of mode iptables have no effect in mode nftables',
  );
});

test.each([
  ['another kind', 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConf', 'Did you mean "SluiceConfig"?'],
  ['another version', 'apiVersion: sluice.dev/v1\nkind: SluiceConfig', 'Use "sluice.dev/v1alpha1"'],
  ['no kind', 'apiVersion: sluice.dev/v1alpha1', 'Add the field kind'],
  ['a misspelt field', `${head}serviceCidrs: [10.96.0.0/12]`, 'Did you mean serviceCIDRs?'],
  [
    'a bare number for a duration',
    `${head}${profile('conntrack: { udpTimeout: 30 }')}`,
    'Write it like 24h0m0s, 90s or 0s',
  ],
  ['a list of lists', '[]', 'Write a mapping here'],
  ['nothing at all', '', 'Set a value, or remove the key'],
])('gives a hint for %s', (_title, text, hint) => {
  expect(
    readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }).problems.map((problem) => problem.hint),
  ).toEqual([hint]);
});

test('reports all problems at once and reads the valid fields', () => {
  const { config, problems } = read(
    `clusterName: shop\nextra: 1\n${profile('mode: userspace\n  iptables: { masqueradeAll: true, masqueradeBit: 40 }')}`,
  );
  expect(problems.map(({ code }) => code)).toEqual(['CONFIG_INVALID', 'CONFIG_UNSUPPORTED', 'CONFIG_INVALID']);
  expect([config.clusterName, config.profiles[0]?.iptables]).toMatchObject([
    'shop',
    { masqueradeAll: true, masqueradeBit: 14 },
  ]);
});

test.each([
  [
    'exponential aliases',
    `a: &a [${'x,'.repeat(9)}x]\n${['b', 'c', 'd', 'e', 'f', 'g', 'h'].map((c, i) => `${c}: &${c} [${`*${'abcdefg'[i]},`.repeat(9)}*${'abcdefg'[i]}]`).join('\n')}`,
    'YAML_ALIAS_BOMB',
  ],
  ['unclosed nesting', `a: ${'['.repeat(5_000)}`, 'INPUT_TOO_LARGE'],
  ['very deep nesting', `a: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, 'INPUT_TOO_LARGE'],
  ['a huge text', `a: ${'x'.repeat(2_000_000)}`, 'INPUT_TOO_LARGE'],
])('refuses %s', (_title, text, code) => {
  expect(
    readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }).problems.map((problem) => problem.code),
  ).toContain(code);
});

test('reads the version of kube-proxy of a profile', () => {
  const versions = (text: string) =>
    read(`profiles: [{ name: a, nodeSelector: { matchLabels: { a: b } }${text} }]`).config.profiles.map(
      ({ kubeProxyVersion }) => kubeProxyVersion,
    );
  expect(versions(', kubeProxyVersion: "1.30"')).toEqual(['1.30', undefined]);
  expect(versions('')).toEqual([undefined, undefined]);
});

test.each([
  [
    '"1.27"',
    '"1.27" is not a version of kube-proxy from 1.28 to 1.38',
    'Write major and minor in quotes, such as "1.38"',
  ],
  [
    '"1.39"',
    '"1.39" is not a version of kube-proxy from 1.28 to 1.38',
    'Write major and minor in quotes, such as "1.38"',
  ],
  ['v1.34.2', '"v1.34.2" is not a version of kube-proxy', 'Write major and minor'],
  ['""', '"" is not a version of kube-proxy', 'Write major and minor'],
  ['1.30', 'it is a number, not a string', 'without quotes YAML reads 1.30 as 1.3'],
  ['1.34', 'it is a number, not a string', 'Put the value in quotes'],
])('refuses kubeProxyVersion: %s', (value, why, hint) => {
  const { problems } = read(`profiles: [{ name: a, kubeProxyVersion: ${value} }]`);
  expect(problems).toEqual([
    {
      code: 'CONFIG_INVALID',
      level: 'error',
      at: { file: 'sluice.yaml', line: 3, column: 41 },
      object: 'SluiceConfig',
      message: expect.stringContaining(`Cannot use profiles[0].kubeProxyVersion: ${why}`) as string,
      hint: expect.stringContaining(hint) as string,
    },
  ]);
});

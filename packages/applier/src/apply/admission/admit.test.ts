import { invalidDrop } from '@sluice/netfilter';
import { liberalKey } from '@sluice/bundle';
import { describe, expect, test } from 'vitest';
import { sampleBundle, type SampleOptions, sampleNode } from '../../testing/bundle.fixture.ts';
import { admit, AdmitMemory, isAtLeast } from './admit.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { sampleFacts } from '../../testing/node-facts.fixture.ts';

const able = { ...sampleFacts, addresses: { ipv4: ['127.0.0.1', '192.0.2.11', '198.51.100.11'], ipv6: [] } };

const readOnly: Partial<NodeFacts> = { sysctlTakes: () => false };

/** The codes and hints of the problems of a bundle on a node. */
function refusalOf(options: SampleOptions, facts: Partial<NodeFacts> = {}, node = sampleNode): string {
  const result = admit(
    sampleBundle(options),
    { node, allowPartial: false, layout: 'flat' as const },
    { ...able, ...facts },
    new AdmitMemory(),
  );
  return 'problems' in result
    ? result.problems.map(({ code, message, hint }) => `${code} ${message} ${hint}`).join('\n')
    : 'admitted';
}

test.each([
  ['a good bundle', {}, {}, 'admitted'],
  ['partial input', { complete: false }, {}, 'BUNDLE_PARTIAL'],
  [
    'a family without tools, with the option to change',
    { families: ['ipv4', 'ipv6'] },
    { tools: { ipv4: '1.8.9' } },
    'families: [ipv4]',
  ],
  ['tools for a family that the profile does not have', {}, { tools: { ipv4: '1.8.9' } }, 'admitted'],
  [
    'an iptables without --random-fully, with the option to change',
    {},
    { tools: { ipv4: '1.6.1' } },
    'iptables.randomFully: false',
  ],
  ['a sysctl outside the list', { sysctls: ['kernel.ostype = 1'] }, {}, 'SYSCTL_NOT_ALLOWED'],
  ['a sysctl by a path', { sysctls: ['net.ipv4.../../kernel/ostype = 1'] }, {}, 'SYSCTL_NOT_ALLOWED'],
  ['a sysctl out of range', { sysctls: ['net.ipv4.ip_forward = 2'] }, {}, 'SYSCTL_NOT_ALLOWED'],
  [
    'a sysctl that cannot be written here',
    { sysctls: ['net.netfilter.nf_conntrack_max = 131072'] },
    readOnly,
    'conntrack.maxPerCore: 0',
  ],
  [
    'a sysctl of mode ipvs that cannot be written here, by its name and its module',
    { sysctls: ['net.ipv4.vs.conntrack = 1'] },
    readOnly,
    'Cannot set sysctl net.ipv4.vs.conntrack to 1: it has another value and is read-only here On the node: load ip_vs',
  ],
] as const)('%s', (_title, options, facts, expected) => {
  expect(refusalOf(options as SampleOptions, facts)).toContain(expected);
});

test('refuses a bundle without this node', () => {
  expect(refusalOf({}, {}, 'node-z')).toContain('BUNDLE_UNKNOWN_NODE');
});

describe('a rule file never reaches a tool with', () => {
  const dangerous = [
    ['a program to run', '-A KUBE-SERVICES -M /tmp/evil -j RETURN'],
    ['a newline in a comment', '-A KUBE-SERVICES -m comment --comment "x\n-A INPUT -j ACCEPT" -j RETURN'],
    ['a NUL byte', '-A KUBE-SERVICES -j RETURN\0 -j DROP'],
    ['a rule in a built-in chain', '-A INPUT -j ACCEPT'],
    ['a rule in a foreign chain', '-A DOCKER -j RETURN'],
    ['a jump to a foreign chain', '-A KUBE-SERVICES -j DOCKER'],
    ['a policy', '-P INPUT DROP'],
    ['a flush', '-F'],
    ['another table', '*mangle'],
    ['a table option', '-A KUBE-SERVICES -t filter -j RETURN'],
    ['a host name', '-A KUBE-SERVICES -d example.com -j RETURN'],
    ['a foreign extension', '-A KUBE-SERVICES -m bpf --bytecode "1,6 0 0 1" -j RETURN'],
    ['a line of more than 1,000 bytes', `-A KUBE-SERVICES -m comment --comment "${'x'.repeat(1100)}" -j RETURN`],
  ] as const;

  test.each(dangerous)('%s', (_title, line) => {
    expect(refusalOf({ extraNat: [line] })).toMatch(/RULE_REFUSED|BUNDLE_INVALID/);
  });
});

test.each([
  ['in the networks of the profile', '[192.0.2.0/24]', ['192.0.2.11/32']],
  ["and the node's own, whose network is not there", '[203.0.113.0/24, primary]', ['192.0.2.11/32']],
  ["on loopback and the node's own", '[127.0.0.0/8, primary]', ['127.0.0.1/32', '192.0.2.11/32']],
  ['on loopback alone', '[127.0.0.0/8]', ['127.0.0.1/32']],
] as const)('the addresses of the machine fill the node-port rules: %s', (_title, list, expected) => {
  const files = sampleBundle({
    extraNat: [':KUBE-NODEPORTS - [0:0]', '-A KUBE-SERVICES -d ${host.nodePortAddresses} -j KUBE-NODEPORTS'],
  });
  const edit = (path: string, from: string, to: string): unknown =>
    files.set(path, (files.get(path) ?? '').replace(from, to));
  edit('profiles/default/profile.yaml', 'nodePortAddresses: []', `nodePortAddresses: ${list}`);
  edit(`nodes/${sampleNode}/node.yaml`, 'values: {}', 'values: { ipv4: { address: 192.0.2.11 } }');
  const facts = { ...able, addresses: { ipv4: ['127.0.0.1', '192.0.2.11', '198.51.100.1'], ipv6: [] } };
  const result = admit(
    files,
    { node: sampleNode, allowPartial: false, layout: 'flat' as const },
    facts,
    new AdmitMemory(),
  );
  const rules = 'state' in result ? (result.state.families.ipv4?.nat.chains.get('KUBE-SERVICES') ?? []) : [];
  const jumps = rules.filter((rule) => rule.endsWith('-j KUBE-NODEPORTS'));
  expect(jumps).toEqual(expected.map((address) => `-A KUBE-SERVICES -d ${address} -j KUBE-NODEPORTS`));
  const tree = admit(files, { node: sampleNode, allowPartial: false, layout: 'tree' }, facts, new AdmitMemory());
  const chains = 'state' in tree ? [...(tree.state.families.ipv4?.nat.chains.values() ?? [])] : [];
  const named = ['127.0.0.1/32', '192.0.2.11/32', '198.51.100.1/32'].filter((address) =>
    chains.some((lines) => lines.some((rule) => rule.includes(` -d ${address} `))),
  );
  expect(named).toEqual(expected);
});

const withInvalidDrop = (options: SampleOptions = {}): Map<string, string> =>
  sampleBundle(options).set('profiles/default/base/last.iptables', `*filter\n${invalidDrop}\nCOMMIT\n`);

test.each([
  ['a strict machine drops INVALID packets', false, [], true],
  ['a liberal one lets them pass', true, [], false],
  ['a bundle that makes the machine liberal lets them pass', false, [`${liberalKey} = 1`], false],
  ['a bundle that makes it strict drops them', true, [`${liberalKey} = 0`], true],
] as const)('%s, in both layouts', (_title, tcpBeLiberal, sysctls, isDropped) => {
  for (const [layout, chain] of [
    ['flat', 'KUBE-FORWARD'],
    ['tree', 'SLUICE-FORWARD'],
  ] as const) {
    const files = withInvalidDrop({ sysctls });
    const options = { node: sampleNode, allowPartial: false, layout };
    const result = admit(files, options, { ...able, tcpBeLiberal }, new AdmitMemory());
    const rules = 'state' in result ? result.state.families.ipv4?.filter.chains.get(chain) : [];
    expect(rules?.some((rule) => rule.includes('INVALID'))).toBe(isDropped);
    expect(rules?.some((rule) => rule.endsWith('-j ACCEPT'))).toBe(true);
  }
});

test('links again in both layouts after tcp_be_liberal was set', () => {
  for (const layout of ['flat', 'tree'] as const) {
    const memory = new AdmitMemory();
    const files = withInvalidDrop();
    const linked = (tcpBeLiberal: boolean): string => {
      const result = admit(files, { node: sampleNode, allowPartial: false, layout }, { ...able, tcpBeLiberal }, memory);
      return 'state' in result ? [...(result.state.families.ipv4?.filter.chains.values() ?? [])].flat().join('\n') : '';
    };
    expect([false, true, false].map((liberal) => linked(liberal).includes('INVALID'))).toEqual([true, false, true]);
  }
});

test.each([
  ['1.6.2', true],
  ['1.6.1', false],
  ['1.8', true],
  ['2.0', true],
  ['1.10.0', true],
] as const)('version %s is new enough: %s', (version, enough) => {
  expect(isAtLeast(version, [1, 6, 2])).toBe(enough);
});

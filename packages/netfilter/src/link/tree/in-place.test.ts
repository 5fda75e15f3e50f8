import { expect, test } from 'vitest';
import { parseAddress } from '../../rules/address.ts';
import { trace } from '../../trace/trace.ts';
import type { ResolvedRules } from '../program.ts';
import { endpointOf, rulesOf, type ServiceSpec } from './cluster.fixture.ts';
import { settledProgram } from './flatten.ts';
import { linkTree, sectionsOf } from './link.ts';
import { TreeLinker } from './linker.ts';

const spec: ServiceSpec = { protocol: 'tcp', port: 80, cluster: '10.96.0.1', endpoints: 2, local: false };
const usual = rulesOf([spec], 'ipv4');

/** The cluster with edits of some rules. */
const written = (from: RegExp | string, to: string): ResolvedRules => {
  const change = (rules: readonly string[]): readonly string[] => rules.map((rule) => rule.replace(from, to));
  const { filter, nat } = usual;
  return { filter: { ...filter, rules: change(filter.rules) }, nat: { ...nat, rules: change(nat.rules) } };
};

const tables = (rules: ResolvedRules, knowsBpf = true) =>
  settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4', knowsBpf }).program);

const chainsOfEndpoints = (rules: ResolvedRules, knowsBpf = true): number =>
  [...tables(rules, knowsBpf).nat.chains.keys()].filter((name) => name.startsWith('SLU-SEP-')).length;

test('endpoints are in place, and hairpin packets are marked after DNAT', () => {
  const { filter, nat } = tables(usual);
  const [service = ''] = [...nat.chains.keys()].filter((name) => name.startsWith('SLU-SVC-'));
  expect(nat.chains.get(service)).toEqual([
    `-A ${service} -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.240.0.1:8080`,
    `-A ${service} -p tcp -j DNAT --to-destination 10.240.0.2:8080`,
  ]);
  const isHairpin =
    '! -s 127.0.0.0/8 -m conntrack --ctstate DNAT -m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 65535,6 0 0 0"';
  expect(nat.chains.get('SLUICE-POSTROUTING')?.[0]).toBe(`-A SLUICE-POSTROUTING ${isHairpin} -j SLUICE-MARK-MASQ`);
  expect(filter.chains.get('SLUICE-FORWARD')?.[1]).toBe(`-A SLUICE-FORWARD ${isHairpin} -j ACCEPT`);
});

test('without -m bpf each endpoint has its chain, and no rule uses bpf', () => {
  expect(chainsOfEndpoints(usual, false)).toBe(2);
  expect(JSON.stringify([...tables(usual, false).nat.chains.values()])).not.toContain('bpf');
});

test.each([
  ['its endpoints know their clients', / -j DNAT/, ' -m recent --set --name KUBE-SEP-AAAAAAAAAAAAAAAA -j DNAT', 2],
  ['hairpin packets match another address', '-s 10.240.0.1 -j KUBE-MARK-MASQ', '-s 10.240.0.9 -j KUBE-MARK-MASQ', 1],
  ['their rules match a port', / -m tcp -j DNAT/, ' -m tcp --dport 80 -j DNAT', 2],
  ['its rules match more than a probability', /^(-A KUBE-SVC-\S+) -m statistic/, '$1 -s 10.0.0.0/8 -m statistic', 1],
  ['another rule matches the mark', /ctstate INVALID/, 'ctstate INVALID -m mark --mark 0x4000/0x4000', 2],
  ['the mark is matched in another form', '! --mark 0x4000/0x4000 -j RETURN', '! --mark 0x4000/0x6000 -j RETURN', 2],
  ['another bit is accepted', '--mark 0x4000/0x4000 -j ACCEPT', '--mark 0x8000/0x8000 -j ACCEPT', 2],
])('a Service keeps chains for endpoints when %s', (_title, from, to, count) => {
  const rules = written(from, to);
  expect(rules).not.toEqual(usual);
  expect(chainsOfEndpoints(rules)).toBe(count);
});

test.each([
  ['ipv4', '10.96.0.1'],
  ['ipv6', 'fd00:10::1'],
] as const)('%s: a pod that reaches itself is masqueraded, others of its Service are not', (family, cluster) => {
  const program = settledProgram(linkTree(sectionsOf(rulesOf([{ ...spec, cluster }], family)), { family }).program);
  const source = endpointOf(family, 0, 0);
  const packet = { family, source, in: 'cni0', destination: cluster, protocol: 'tcp', port: 80 } as const;
  const found = trace(program, packet, { localAddresses: [] });
  expect(
    Object.fromEntries(found.map(({ to, masquerade }) => [to?.includes(parseAddress(source)?.text ?? ''), masquerade])),
  ).toEqual({
    true: true,
    false: false,
  });
});

test('a program is not relinked from the last one when a rule gains or loses a match of the mark', () => {
  const { filter, nat } = usual;
  const withRule = (asks: string) =>
    sectionsOf({ filter, nat: { ...nat, rules: [...nat.rules, `-A KUBE-SERVICES -s 10.1.0.0/16 ${asks}-j RETURN`] } });
  const [marked, plain] = [withRule('-m mark --mark 0x1/0x1 '), withRule('')];
  const options = { family: 'ipv4' } as const;
  const linker = new TreeLinker();
  for (const [before, after, count] of [
    [marked, plain, 0],
    [plain, marked, 2],
  ] as const) {
    expect(linker.link(before, options).problems).toEqual([]);
    expect(linker.relink(after, options)).toBeUndefined();
    const names = [...linker.link(after, options).program.nat.chains.keys()];
    expect(names.filter((name) => name.startsWith('SLU-SEP-')).length).toBe(count);
  }
});

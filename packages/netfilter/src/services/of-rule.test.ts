import { expect, test } from 'vitest';
import type { Family } from '../family.ts';
import { readRule } from '../rules/read.ts';
import { isRuleError, type Rule } from '../rules/rule.ts';
import { addressOfEndpoint, affinitySeconds, endpointOf, matchedAddress, matchedPort } from './of-rule.ts';

function ruleOf(text: string, family: Family = 'ipv4'): Rule {
  const rule = readRule(text, family);
  if (isRuleError(rule)) throw new Error(rule.error);
  return rule;
}

test.each([
  ['-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-NPX46M4PTMTKRN6Y', 'ipv4', '10.96.0.10', 80],
  ['-A KUBE-SERVICES -d fd00::a -p udp -m udp --dport 53 -j KUBE-SVC-NPX46M4PTMTKRN6Y', 'ipv6', 'fd00::a', 53],
  ['-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-NPX46M4PTMTKRN6Y', 'ipv4', undefined, 30_080],
  ['-A KUBE-SERVICES -d 10.96.0.0/12 -j KUBE-MARK-MASQ', 'ipv4', undefined, undefined],
  ['-A KUBE-SERVICES ! -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DROP', 'ipv4', undefined, 80],
] as const)('the destination of %s', (text, family, address, port) => {
  const rule = ruleOf(text, family);
  expect([matchedAddress(rule), matchedPort(rule)]).toEqual([address, port]);
});

test('the endpoint of a rule, and its address', () => {
  const four = endpointOf(
    ruleOf('-A KUBE-SEP-NPX46M4PTMTKRN6Y -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080'),
  );
  const six = endpointOf(
    ruleOf('-A KUBE-SEP-NPX46M4PTMTKRN6Y -p tcp -m tcp -j DNAT --to-destination [fd00::1]:8080', 'ipv6'),
  );
  expect([four, six]).toEqual(['10.244.1.5:8080', '[fd00::1]:8080']);
  expect([four, six].map((text = '') => addressOfEndpoint(text))).toEqual(['10.244.1.5', 'fd00::1']);
  // A frontend without a port.
  expect(['192.0.2.12:0', '[fd00::1]:0', 'none'].map(addressOfEndpoint)).toEqual(['192.0.2.12', 'fd00::1', 'none']);
  expect(endpointOf(ruleOf('-A KUBE-SERVICES -j KUBE-NODEPORTS'))).toBeUndefined();
});

test('the seconds of session affinity', () => {
  const list = '-m recent --name KUBE-SEP-NPX46M4PTMTKRN6Y';
  const search = `-A KUBE-SVC-NPX46M4PTMTKRN6Y ${list} --rcheck --seconds 10800 --reap --mask 255.255.255.255 --rsource -j KUBE-SEP-NPX46M4PTMTKRN6Y`;
  expect(affinitySeconds(ruleOf(search))).toBe(10_800);
  expect(affinitySeconds(ruleOf('-A KUBE-SERVICES -j KUBE-NODEPORTS'))).toBeUndefined();
});

import { expect, test } from 'vitest';
import { printRule } from './print.ts';
import { readRule } from './read.ts';
import { isRuleError } from './rule.ts';

test.each([
  ['a chain with a tag', '-A SLU-SVC-NPX46M4PTMTKRN6Y.1c -j SLUICE-MARK-MASQ'],
  ['a way to a chain with a tag', '-A SLUICE-SERVICES -g SLUICE-R-NPX46M4PTMTKRN6Y.zz'],
  ['a range of ports', '-A SLUICE-NODEPORTS -p udp -m udp --dport 30000:30015 -g SLUICE-T-NPX46M4PTMTKRN6Y.00'],
  ['the switch', '-A SLUICE-SERVICES -m set --match-set SLUICE-N src -j SLUICE-ROOT'],
])('%s is read in programs and refused in bundles', (_title, text) => {
  const rule = readRule(text, 'ipv4', 'program');
  expect(isRuleError(rule) ? rule.error : printRule(rule, 'ipv4')).toBe(text);
  expect(isRuleError(readRule(text, 'ipv4'))).toBe(true);
});

test.each([
  ['a range that ends before it starts', '-A SLUICE-X -p tcp -m tcp --dport 90:80 -j DROP'],
  ['a range without an end', '-A SLUICE-X -p tcp -m tcp --dport 90: -j DROP'],
  ['a set of somebody else', '-A SLUICE-X -m set --match-set mine src -j DROP'],
  ['the switch by destination', '-A SLUICE-X -m set --match-set SLUICE-N dst -j DROP'],
  ['a tag on a name of kube-proxy', '-A KUBE-SVC-NPX46M4PTMTKRN6Y.1c -j DROP'],
])('%s is refused in programs, too', (_title, text) => {
  expect(isRuleError(readRule(text, 'ipv4', 'program'))).toBe(true);
});

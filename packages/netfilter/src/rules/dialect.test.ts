import { expect, test } from 'vitest';
import { printRule } from './print.ts';
import { readRule } from './read.ts';
import { isRuleError } from './rule.ts';

test.each([
  ['a chain with a tag', '-A SLU-SVC-NPX46M4PTMTKRN6Y.1c -j SLUICE-MARK-MASQ'],
  ['a way to a chain with a tag', '-A SLUICE-SERVICES -g SLUICE-R-NPX46M4PTMTKRN6Y.zz'],
  ['a range of ports', '-A SLUICE-NODEPORTS -p udp -m udp --dport 30000:30015 -g SLUICE-T-NPX46M4PTMTKRN6Y.00'],
  ['the switch', '-A SLUICE-SERVICES -m set --match-set SLUICE-N src -j SLUICE-ROOT'],
  [
    'the question whether a packet goes to where it comes from',
    '-A SLUICE-FORWARD -m conntrack --ctstate DNAT -m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 65535,6 0 0 0" -j ACCEPT',
  ],
])('%s is read in programs and refused in bundles', (_title, text) => {
  const rule = readRule(text, 'ipv4', 'program');
  expect(isRuleError(rule) ? rule.error : printRule(rule, 'ipv4')).toBe(text);
  expect(isRuleError(readRule(text, 'ipv4'))).toBe(true);
});

test.each([
  ['a range that ends before it starts', '-A SLUICE-X -p tcp -m tcp --dport 90:80 -j DROP'],
  ['a range without an end', '-A SLUICE-X -p tcp -m tcp --dport 90: -j DROP'],
  ['a foreign set', '-A SLUICE-X -m set --match-set mine src -j DROP'],
  ['the switch by destination', '-A SLUICE-X -m set --match-set SLUICE-N dst -j DROP'],
  ['a tag on a name of kube-proxy', '-A KUBE-SVC-NPX46M4PTMTKRN6Y.1c -j DROP'],
  ['other bytecode', '-A SLUICE-X -m bpf --bytecode "1,6 0 0 65535" -j DROP'],
  [
    'bytecode of the other family',
    '-A SLUICE-X -m bpf --bytecode "18,32 0 0 8,7 0 0 0,32 0 0 24,29 0 13 0,32 0 0 12,7 0 0 0,32 0 0 28,29 0 9 0,32 0 0 16,7 0 0 0,32 0 0 32,29 0 5 0,32 0 0 20,7 0 0 0,32 0 0 36,29 0 1 0,6 0 0 65535,6 0 0 0" -j DROP',
  ],
])('%s is refused in programs and bundles', (_title, text) => {
  expect(isRuleError(readRule(text, 'ipv4', 'program'))).toBe(true);
});

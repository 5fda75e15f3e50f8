import { expect, test } from 'vitest';
import { fillRules } from './host.ts';

const rules = (...nat: readonly string[]): Parameters<typeof fillRules>[0] => ({
  filter: { chains: ['KUBE-FORWARD'], rules: ['-A KUBE-FORWARD -j RETURN'] },
  nat: { chains: ['KUBE-SERVICES'], rules: nat },
});
const addresses = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
const toNodePorts = '-A KUBE-SERVICES -d ${host.nodePortAddresses} -j KUBE-NODEPORTS';

test('a rule is repeated in place for each address of the machine, and the others are unchanged', () => {
  const filled = fillRules(rules('-A KUBE-SERVICES -j A', toNodePorts, '-A KUBE-SERVICES -j B'), {
    nodePortAddresses: ['192.0.2.1', '192.0.2.2'],
  });
  expect(filled).toEqual(
    rules(
      '-A KUBE-SERVICES -j A',
      '-A KUBE-SERVICES -d 192.0.2.1 -j KUBE-NODEPORTS',
      '-A KUBE-SERVICES -d 192.0.2.2 -j KUBE-NODEPORTS',
      '-A KUBE-SERVICES -j B',
    ),
  );
});

test('a machine without addresses in these networks does not have the rule', () => {
  expect(fillRules(rules(toNodePorts), { nodePortAddresses: [] })).toEqual(rules());
});

test('a variable used twice in a rule does not square the number of rules', () => {
  const twice = fillRules(rules('-A X ${host.nodePortAddresses} ${host.nodePortAddresses}'), {
    nodePortAddresses: ['1', '2', '3'],
  });
  expect(twice).toEqual(rules('-A X 1 1', '-A X 2 2', '-A X 3 3'));
});

test('many rules for many addresses are refused before they exhaust the memory', () => {
  const many = rules(...Array.from({ length: 200 }, () => toNodePorts));
  expect(fillRules(many, { nodePortAddresses: addresses(400) })).toMatchObject({ nat: expect.anything() });
  expect(fillRules(many, { nodePortAddresses: addresses(501) })).toMatchObject({
    code: 'PROGRAM_LIMIT',
    message: expect.stringContaining("machine's 501 addresses"),
    hint: expect.stringContaining('nodePortAddresses'),
  });
});

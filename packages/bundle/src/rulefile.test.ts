import { expect, test } from 'vitest';
import type { Problem } from '../../netfilter/src/problem.ts';
import { readRuleFile } from './read-rulefile.ts';
import { printRuleFile, type RuleFile } from './rulefile.ts';

const file: RuleFile = {
  header: ['shop/web ClusterIP', '', 'endpoint http 10.244.1.5:8080 node-a zone-a'],
  sections: [
    {
      table: 'filter',
      chains: [],
      rules: [{ guard: { kind: 'local', negated: true, chain: 'KUBE-SVL-A' }, text: '-A KUBE-SERVICES -j DROP' }],
    },
    {
      table: 'nat',
      chains: ['KUBE-SVC-A', 'KUBE-SVL-A'],
      rules: [
        { text: '-A KUBE-SERVICES -j KUBE-SVC-A' },
        { guard: { kind: 'zone', negated: true, values: ['a', 'b'] }, text: '-A KUBE-SVC-A -j KUBE-SEP-A' },
        { guard: { kind: 'node', negated: false, values: ['node-a'] }, text: '-A KUBE-SVL-A -j KUBE-SEP-A' },
        {
          guard: { kind: 'ip-in', negated: false, values: ['10.0.0.0/8'] },
          text: '-A KUBE-FW-A -s 10.0.0.1 -j KUBE-EXT-A',
        },
      ],
    },
  ],
};

test('a printed file reads back', () => {
  expect(readRuleFile('a.iptables', printRuleFile(file))).toEqual(file);
});

test('a rule may have 1,000 bytes; comments between and after sections are not in the header', () => {
  const text = `-A KUBE-A ${'x'.repeat(990)}`;
  expect(readRuleFile('a.iptables', `# top\n*nat\n# within\n${text}\nCOMMIT\n# behind\n`)).toEqual({
    header: ['top'],
    sections: [{ table: 'nat', chains: [], rules: [{ text }] }],
  });
});

test('sections without chains and rules are not written', () => {
  expect(printRuleFile({ header: [], sections: [{ table: 'nat', chains: [], rules: [] }] })).toBe('');
});

test.each([
  ['a line outside a section', '-A KUBE-SERVICES -j DROP\n', 1],
  ['nat before filter', '*nat\nCOMMIT\n*filter\nCOMMIT\n', 3],
  ['a section within another', '*filter\n*nat\nCOMMIT\n', 2],
  ['one table twice', '*nat\nCOMMIT\n*nat\nCOMMIT\n', 3],
  ['another table', '*mangle\nCOMMIT\n', 1],
  ['a section without its COMMIT', '*nat\n-A KUBE-SERVICES -j DROP\n', 2],
  ['a last line without its end', '*nat\nCOMMIT', 2],
  ['a chain with a policy', '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n', 2],
  ['a chain declared twice', '*nat\n:KUBE-A - [0:0]\n:KUBE-A - [0:0]\nCOMMIT\n', 3],
  ['a chain declared after a rule', '*nat\n-A KUBE-A -j DROP\n:KUBE-A - [0:0]\nCOMMIT\n', 3],
  ['a chain name of 29 characters', `*nat\n:${'K'.repeat(29)} - [0:0]\nCOMMIT\n`, 2],
  ['a command that is not -A', '*nat\n-F KUBE-A\nCOMMIT\n', 2],
  ['an unknown guard', '*nat\n@moon=full -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['two guards', '*nat\n@zone=a @node=b -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a negation where there is none', '*nat\n:KUBE-A - [0:0]\n@local!=KUBE-A -A KUBE-A -j DROP\nCOMMIT\n', 3],
  ['a guard with an undeclared chain', '*nat\n@local=KUBE-SVL-A -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a guard without value', '*nat\n@zone= -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a guard with an empty value', '*nat\n@zone=,a -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a zone that is no label', '*nat\n@zone=a" -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['an invalid node name', '*nat\n@node=Node_A -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a network that is none', '*nat\n@ip-in=10.0.0.0/33 -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['values out of order', '*nat\n@zone=b,a -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a value twice', '*nat\n@zone=a,a -A KUBE-A -j DROP\nCOMMIT\n', 2],
  ['a guard that is not followed by a rule', '*nat\n@zone=a -F KUBE-A\nCOMMIT\n', 2],
  ['a variable that there is not', '*nat\n-A KUBE-A -s ${node.adress} -j DROP\nCOMMIT\n', 2],
  ['a rule of 1,001 bytes', `*nat\n-A KUBE-A ${'x'.repeat(991)}\nCOMMIT\n`, 2],
  ['a line of more than 64 KiB', `# ${'x'.repeat(65_535)}\n*nat\nCOMMIT\n`, 1],
  ['a terminal sequence in a comment', '# \u001b[2J\n*nat\nCOMMIT\n', 1],
  ['a carriage return', '*nat\r\nCOMMIT\n', 1],
  ['a NUL byte', '*nat\n-A KUBE-A -j DROP\u0000\nCOMMIT\n', 2],
])('%s is refused with its line', (_title, text, line) => {
  const problems = readRuleFile('a.iptables', text);
  expect((problems as readonly Problem[])[0]).toMatchObject({
    code: 'BUNDLE_INVALID',
    at: { file: 'a.iptables', line },
  });
});

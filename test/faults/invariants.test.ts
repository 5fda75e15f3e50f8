// @module-tag quick
import { describe, expect, test } from 'vitest';
import { type Invariants, type NodeSnapshot, wrongAfterFault, wrongAfterRecovery } from './invariants.ts';

/** Tests of the checks themselves: each detects what it is for. */

const foreign = '-A FORWARD -i cni0 -j DROP';

/** One family whose Services go to one root; with a second root, a rule before it checks the switch for that one. */
function save(root: string, staged?: string, more = ''): string {
  const ask = (set: string, jump: string): string =>
    staged === undefined ? '' : `-A SLUICE-SERVICES -m set --match-set ${set} src ${jump} ${staged}\n`;
  const rules = (set: string, jump: string): string =>
    `-A OUTPUT -j SLUICE-SERVICES\n${ask(set, jump)}-A SLUICE-SERVICES -g ${root}\n`;
  const chains = ['SLUICE-SERVICES', root, ...(staged === undefined ? [] : [staged])].map(
    (name) => `:${name} - [0:0]\n`,
  );
  const bodies = [root, ...(staged === undefined ? [] : [staged])].map((name) => `-A ${name} -j RETURN\n`).join('');
  const table = (set: string, jump: string): string =>
    `:OUTPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n${chains.join('')}${rules(set, jump)}${bodies}`;
  return `*nat\n${table('SLUICE-N', '-g')}COMMIT\n*filter\n${table('SLUICE-F', '-j')}${foreign}\n${more}COMMIT\n`;
}

const snapshot = (v4: string, v6: string, sets = ''): NodeSnapshot => ({
  saves: [v4, v6],
  sets,
  accounting: '0',
  table: '',
  foreignTables: '',
  journal: undefined,
  files: '',
});
const [A, B] = ['SLUICE-R-A.aa', 'SLUICE-R-B.bb'];
const settled = new Map([
  ['old', snapshot(save(A), save(A))],
  ['new', snapshot(save(B), save(B))],
]);
const expected: Invariants = {
  settled,
  finalStates: ['old', 'new'],
  atomicScope: 'node',
  before: snapshot(save(A), save(A)),
};
const switchOn = 'add SLUICE-N SLUICE-ALL4 timeout 3\nadd SLUICE-F SLUICE-ALL4 timeout 5';

describe('right after a fault', () => {
  test.each<[string, NodeSnapshot, readonly RegExp[]]>([
    ['the old program is right', snapshot(save(A), save(A)), []],
    ['a release whose switch is off is the old program', snapshot(save(A, B), save(A, B)), []],
    ['a release whose switch is on is the new program', snapshot(save(A, B), save(A, B), switchOn), []],
    [
      'while only the switch of filter is on, nat decides',
      snapshot(save(A, B), save(A, B), 'add SLUICE-F SLUICE-ALL4 timeout 5'),
      [],
    ],
    ['families with different programs are a mix', snapshot(save(A), save(B)), [/^I1/, /^I1/]],
    ['a default that was rewritten while the switch is off is a mix', snapshot(save(B, A), save(A, B)), [/^I1/, /^I1/]],
    ['a removed foreign rule is reported', snapshot(save(A).replace(foreign, ''), save(A)), [/^I2/]],
    [
      'a rule of neither program is reported',
      snapshot(save(A, undefined, '-A SLUICE-SERVICES -j ACCEPT\n'), save(A)),
      [/^I4/, /^I1/],
    ],
  ])('%s', (_title, node, wrong) => {
    expect(wrongAfterFault(node, expected)).toEqual(wrong.map((one): unknown => expect.stringMatching(one)));
  });
});

describe('after the next process', () => {
  test.each<[string, NodeSnapshot, readonly RegExp[]]>([
    ['the old program is right', snapshot(save(A), save(A)), []],
    ['a rule that checks the switch is not a settled program', snapshot(save(A, B), save(A, B)), [/^I1/, /^I1/]],
    ['leftover sets are reported', snapshot(save(A), save(A), 'create SLUICE-ALL4 hash:net'), [/^I6/]],
    ['leftover files are reported', { ...snapshot(save(A), save(A)), files: '/state/current.tmp' }, [/^I6/]],
  ])('%s', (_title, node, wrong) => {
    expect(wrongAfterRecovery(node, expected)).toEqual(wrong.map((one): unknown => expect.stringMatching(one)));
  });

  test('a program that the node must not end on is reported', () => {
    const wrong = wrongAfterRecovery(snapshot(save(B), save(B)), { ...expected, finalStates: ['old'] });
    expect(wrong[0]).toMatch(/^I1/);
  });
});

describe('in mode nftables', () => {
  /** A table as `nft` lists it. */
  const list = (
    sets: Readonly<Record<string, string>>,
    rule = 'ip daddr . meta l4proto . th dport vmap @svc4',
  ): string => {
    const maps = Object.entries(sets).map(
      ([name, elements]) => `\tmap ${name} {\n\t\telements = { ${elements} }\n\t}\n`,
    );
    return `table inet sluice {\n${maps.join('')}\tchain services4 {\n\t\t${rule}\n\t}\n}`;
  };
  const [one, two] = ['10.244.0.1 . 8080', '10.244.0.2 . 8080'];
  const web = '10.96.0.11 . 6 . 80';
  const slot = (at: number, to: string): string => `10.96.0.11 . 80 . ${at} : ${to}`;
  const old = { svc4: `${web} : goto n1`, tcp4: slot(0, one) };
  const overlay = { tsvc4: `${web} : goto n1b`, tcp4: `${slot(0, one)}, ${slot(65_536, two)}` };
  const staged = { ...old, ...overlay, tkey4: web };
  const on = { trial4: '0.0.0.0/0 timeout 3s expires 2s', trial6: '::/0 timeout 3s expires 2s' };
  const confirmed = { svc4: `${web} : goto n1b`, tcp4: slot(65_536, two) };
  const at = (table: string): NodeSnapshot => ({ ...snapshot('', ''), table });
  const tables: Invariants = {
    settled: new Map([
      ['old', at(list(old))],
      ['new', at(list({ svc4: `${web} : goto n1`, tcp4: slot(0, two) }))],
    ]),
    finalStates: ['old', 'new'],
    atomicScope: 'table',
    before: at(list(old)),
  };

  test.each<[string, string, readonly RegExp[]]>([
    ['the old table is right', list(old), []],
    ['an overlay that is off is the old table', list(staged), []],
    ['an overlay that is on is the new table', list({ ...staged, ...on }), []],
    ['the other half of the slots is right', list(confirmed), []],
    ['a verdict that leads to an empty slot is a mix', list({ ...confirmed, tcp4: slot(0, one) }), [/^I1.*nothing/]],
    ['a verdict without its second endpoint is a mix', list({ ...old, svc4: `${web} : goto n2` }), [/^I4/, /^I1/]],
    ['a changed rule of the table is a mix', list(old, 'accept'), [/^I1/]],
    ['a foreign element is reported', list({ ...old, cluster4: '10.96.0.99' }), [/^I4/]],
    ['a lost table is reported', '', [/^I1/]],
  ])('%s, right after a fault', (_title, table, wrong) => {
    expect(wrongAfterFault(at(table), tables)).toEqual(wrong.map((text): unknown => expect.stringMatching(text)));
  });

  test.each<[string, string, readonly RegExp[]]>([
    ['the old table is right', list(old), []],
    ['the new one in the other half is right', list(confirmed), []],
    ['an overlay that is off is left over', list(staged), [/^I1/, /^I1/, /^I6: .*tkey4/]],
    ['slots that no verdict leads to are left over', list({ ...old, tcp4: overlay.tcp4 }), [/^I1/, /^I1/]],
    ['a switch that is on is left over', list({ ...old, ...on }), [/^I6: .*trial4,trial6/]],
  ])('%s, after the next process', (_title, table, wrong) => {
    expect(wrongAfterRecovery(at(table), tables)).toEqual(wrong.map((text): unknown => expect.stringMatching(text)));
  });

  test.each<[string, NodeSnapshot, readonly RegExp[]]>([
    ['both data planes may be whole', { ...snapshot(save(A), save(A)), table: list(old) }, []],
    ['the table may be whole beside a part of the rules', { ...snapshot(save(A), ''), table: list(old) }, []],
    ['one has to be whole', snapshot('', ''), [/^I1/]],
  ])('while the mode changes %s', (_title, node, wrong) => {
    const both = new Map([
      ['table', at(list(old))],
      ['rules', snapshot(save(A), save(A))],
    ]);
    const found = wrongAfterFault(node, { ...tables, settled: both, atomicScope: 'mode' });
    expect(found.filter((text) => !text.startsWith('I2'))).toEqual(
      wrong.map((text): unknown => expect.stringMatching(text)),
    );
  });

  test('a foreign table that changed is reported', () => {
    expect(wrongAfterFault({ ...at(list(old)), foreignTables: 'table ip sluice' }, tables)).toMatchObject([
      expect.stringMatching(/^I2/),
    ]);
  });
});

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
      [/^I1/, /^I4/],
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

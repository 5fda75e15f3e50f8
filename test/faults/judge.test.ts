// @module-tag quick
import { describe, expect, test } from 'vitest';
import { type Expected, type Seen, wrongAfterFault, wrongAfterRecovery } from './judge.ts';

/** The judge itself: what must be seen is seen. */

const foreign = '-A FORWARD -i cni0 -j DROP';

/** One family whose Services go to one root, with a rule that asks the switch for another one before it where there is a trial. */
function save(root: string, trial?: string, more = ''): string {
  const ask = (set: string, jump: string): string =>
    trial === undefined ? '' : `-A SLUICE-SERVICES -m set --match-set ${set} src ${jump} ${trial}\n`;
  const rules = (set: string, jump: string): string =>
    `-A OUTPUT -j SLUICE-SERVICES\n${ask(set, jump)}-A SLUICE-SERVICES -g ${root}\n`;
  const chains = ['SLUICE-SERVICES', root, ...(trial === undefined ? [] : [trial])].map((name) => `:${name} - [0:0]\n`);
  const bodies = [root, ...(trial === undefined ? [] : [trial])].map((name) => `-A ${name} -j RETURN\n`).join('');
  const table = (set: string, jump: string): string =>
    `:OUTPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n${chains.join('')}${rules(set, jump)}${bodies}`;
  return `*nat\n${table('SLUICE-N', '-g')}COMMIT\n*filter\n${table('SLUICE-F', '-j')}${foreign}\n${more}COMMIT\n`;
}

const seen = (v4: string, v6: string, sets = ''): Seen => ({ saves: [v4, v6], sets, journal: undefined, files: '' });
const [A, B] = ['SLUICE-R-A.aa', 'SLUICE-R-B.bb'];
const settled = new Map([
  ['old', seen(save(A), save(A))],
  ['new', seen(save(B), save(B))],
]);
const expected: Expected = { settled, ends: ['old', 'new'], whole: 'node', before: seen(save(A), save(A)) };
const lit = 'add SLUICE-N SLUICE-ALL4 timeout 3\nadd SLUICE-F SLUICE-ALL4 timeout 5';

describe('right after a fault', () => {
  test.each<[string, Seen, readonly RegExp[]]>([
    ['the old program is right', seen(save(A), save(A)), []],
    ['a trial whose switch is off is the old program', seen(save(A, B), save(A, B)), []],
    ['a trial whose switch is on is the new program', seen(save(A, B), save(A, B), lit), []],
    ['while filter alone is on, nat decides', seen(save(A, B), save(A, B), 'add SLUICE-F SLUICE-ALL4 timeout 5'), []],
    ['families of two programs are a mix', seen(save(A), save(B)), [/^I1/, /^I1/]],
    ['a default that was rewritten under a dark switch is a mix', seen(save(B, A), save(A, B)), [/^I1/, /^I1/]],
    ['a rule of others that is gone is told', seen(save(A).replace(foreign, ''), save(A)), [/^I2/]],
    [
      'a rule of neither program is told',
      seen(save(A, undefined, '-A SLUICE-SERVICES -j ACCEPT\n'), save(A)),
      [/^I1/, /^I4/],
    ],
  ])('%s', (_title, node, wrong) => {
    expect(wrongAfterFault(node, expected)).toEqual(wrong.map((one): unknown => expect.stringMatching(one)));
  });
});

describe('after the next process', () => {
  test.each<[string, Seen, readonly RegExp[]]>([
    ['the old program is right', seen(save(A), save(A)), []],
    ['a rule that asks the switch is no settled program', seen(save(A, B), save(A, B)), [/^I1/, /^I1/]],
    ['sets that are left are told', seen(save(A), save(A), 'create SLUICE-ALL4 hash:net'), [/^I6/]],
    ['files that are left are told', { ...seen(save(A), save(A)), files: '/state/current.tmp' }, [/^I6/]],
  ])('%s', (_title, node, wrong) => {
    expect(wrongAfterRecovery(node, expected)).toEqual(wrong.map((one): unknown => expect.stringMatching(one)));
  });

  test('the program that it must not end on is told', () => {
    const wrong = wrongAfterRecovery(seen(save(B), save(B)), { ...expected, ends: ['old'] });
    expect(wrong[0]).toMatch(/^I1/);
  });
});

import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { quote, splitWords, targetOf } from './words.ts';

test.each<[string, string, string | undefined]>([
  ['a jump', '-A INPUT -j KUBE-FIREWALL', 'KUBE-FIREWALL'],
  ['a goto', '-A INPUT -m comment --comment x -g KUBE-ROOT', 'KUBE-ROOT'],
  ['a target with options', '-A KUBE-SERVICES -p tcp -j REJECT --reject-with tcp-reset', 'REJECT'],
  ['a rule outside the grammar', '-A cali-X -m set --match-set a src -j LOG --log-prefix "-j x"', 'LOG'],
  ['no target', '-A KUBE-FW-X -m comment --comment "other traffic"', undefined],
  ['a comment that looks like a target', '-A INPUT -m comment --comment "a -j KUBE-X" -j ACCEPT', 'ACCEPT'],
  ['the same with quotes inside', String.raw`-A INPUT -m comment --comment "a \" -j KUBE-X" -j ACCEPT`, 'ACCEPT'],
  ['a comment alone that looks like one', '-A INPUT -m comment --comment "a -j KUBE-X"', undefined],
])('the target of %s', (_title, rule, target) => {
  expect(targetOf(rule)).toBe(target);
});

test('a quoted text reads back', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[ -~]{1,80}$/), (text) => {
      const words = splitWords(`-A ${quote(text)} end`);
      expect('error' in words ? words.error : words.map((word) => word.text)).toEqual(['-A', text, 'end']);
    }),
  );
});

test('a line never splits into more words than in iptables-restore', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[-!"'\\ab ]{1,20}$/), (line) => {
      const words = splitWords(line);
      fc.pre(!('error' in words));
      expect(words.map((word) => word.text)).toEqual(splitLikeIptables(line));
    }),
    runs(2_000),
  );
});

/** `add_param_to_argv` of iptables 1.8 (`iptables/xshared.c`): quotes start and end anywhere, backslashes count inside them. */
function splitLikeIptables(line: string): readonly string[] {
  const words: string[] = [];
  let word = '';
  let open = false;
  let quoted = false;
  for (let at = 0; at <= line.length; at++) {
    const character = line[at] ?? '\n';
    if (open && character === '\\') word += line[++at] ?? '';
    else if (character === '"') [open, quoted] = [!open, true];
    else if (!open && (character === ' ' || character === '\n')) {
      if (word !== '' || quoted) words.push(word);
      [word, quoted] = ['', false];
    } else word += character;
  }
  return words;
}

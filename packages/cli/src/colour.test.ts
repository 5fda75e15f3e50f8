import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { colours, type ColourStream } from './colour.ts';
import { outputOption } from './format.ts';
import { newProgram } from './program.ts';

const terminal: ColourStream = { hasColors: () => true };
const pipe: ColourStream = {};

function coloursOf(words: readonly string[], stdout = terminal) {
  const program = newProgram('sluice', 'does things');
  for (const name of ['diff', 'status', 'doctor', 'policy', 'show']) program.command(name).addOption(outputOption());
  return colours(program, words, { stdout, stderr: stdout });
}

/** A text with a letter for each style instead of escapes. */
const marked = (text: string): string =>
  text
    .replaceAll('\u001B[32m', '<g>')
    .replaceAll('\u001B[31m', '<r>')
    .replaceAll('\u001B[33m', '<y>')
    .replaceAll('\u001B[36m', '<c>')
    .replaceAll('\u001B[1m', '<b>')
    .replaceAll('\u001B[2m', '<d>')
    .replaceAll(/\u001B\[(?:22|39)m/g, '>'); // oxlint-disable-line eslint/no-control-regex -- the ends of styles

test.each([
  ['diff', '+ shop/web (ipv4)\n    - endpoint a\n', '<g>+ shop/web (ipv4)>\n<r>    - endpoint a>\n'],
  ['diff', ' -A KUBE-SVC\n-A KUBE-SEP\n', ' -A KUBE-SVC\n<r>-A KUBE-SEP>\n'],
  ['doctor', 'shop/web: no endpoint [NO_ENDPOINT]\n', '<b><r>shop/web: no endpoint [NO_ENDPOINT]>>\n'],
  ['policy', 'a/b.iptables:7: warning: shop/web: x [Y_Z]\n', 'a/b.iptables:7: <y>warning>: shop/web: x<d> [Y_Z]>\n'],
  ['status', 'kernel      DIFFERS from it\n', '<c>kernel     > <b><r>DIFFERS>> from it\n'],
  ['status', 'daemon      healthy\nalarm       A: b\n', '<c>daemon     > <g>healthy>\n<b><r>alarm>>       A: b\n'],
  ['show', '-A KUBE-SVC\n+ x\n', '-A KUBE-SVC\n+ x\n'],
])('%s prints %j', (command, text, expected) => {
  const painted = coloursOf([command]).out(text);
  expect(marked(painted)).toBe(expected);
  expect(stripVTControlCharacters(painted)).toBe(text);
});

test('problems have colours in every command', () => {
  const text = 'shop.yaml:4:1: error: Cannot read it [INPUT_INVALID]\n    Mend it\n';
  expect(marked(coloursOf(['show']).err(text))).toBe(
    'shop.yaml:4:1: <b><r>error>>: Cannot read it<d> [INPUT_INVALID]>\n    Mend it\n',
  );
});

test.each([
  ['no colour in a pipe', ['diff'], pipe, false],
  ['colours in a pipe with --color=always', ['diff', '--color=always'], pipe, true],
  ['colours before the command', ['--color', 'always', 'diff'], pipe, true],
  ['no colour with --color never', ['diff', '--color', 'never'], terminal, false],
  ['no colour where the terminal has none, as with NO_COLOR', ['diff'], { hasColors: () => false }, false],
  ['no colour in documents', ['diff', '-o', 'json'], terminal, false],
] as [string, string[], ColourStream, boolean][])('%s', (_title, words, stdout, has) => {
  expect(coloursOf(words, stdout).out('+ a\n') !== '+ a\n').toBe(has);
});

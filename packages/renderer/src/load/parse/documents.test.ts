import { expect, test } from 'vitest';
import { splitDocuments } from './documents.ts';

/** `line: text` of each document. */
function split(text: string): string[] {
  return splitDocuments('in.yaml', text).map((document) => `${document.line}: ${document.text}`);
}

test.each([
  ['one document without markers', 'a: 1\n', ['1: a: 1\n']],
  ['two documents', 'a: 1\n---\nb: 2\n', ['1: a: 1\n', '2: ---\nb: 2\n']],
  ['a marker at the start and one at the end', '---\na: 1\n---\n', ['1: ---\na: 1\n']],
  ['a marker with a comment', 'a: 1\n--- # next\nb: 2', ['1: a: 1\n', '2: --- # next\nb: 2']],
  ['a marker with content after it', 'a: 1\n--- {b: 2}\n', ['1: a: 1\n', '2: --- {b: 2}\n']],
  ['a marker with spaces after it', 'a: 1\n---  \nb: 2\n', ['1: a: 1\n', '2: ---  \nb: 2\n']],
  ['the end marker', 'a: 1\n...\nb: 2\n', ['1: a: 1\n', '3: b: 2\n']],
  ['an end marker and a marker', 'a: 1\n... # end\n---\nb: 2\n', ['1: a: 1\n', '3: ---\nb: 2\n']],
  ['an end marker with content, to be refused by the parser', 'a: 1\n... b\n', ['1: a: 1\n... b\n']],
  [
    'directives belong to the document below them',
    'a: 1\n...\n%YAML 1.2\n# note\n---\nb: 2\n',
    ['1: a: 1\n', '3: %YAML 1.2\n# note\n---\nb: 2\n'],
  ],
  ['no content at all', '', []],
  ['only a comment', '# note\n\n', []],
  ['empty documents', '---\n---\n# note\n---\n\n', []],
  ['CRLF counts lines and becomes LF', 'a: 1\r\n---\r\nb: 2\r\n', ['1: a: 1\n', '2: ---\nb: 2\n']],
  ['a byte order mark at the start', '\ufeffa: 1\n', ['1: a: 1\n']],
  ['a byte order mark of a second file that was appended', 'a: 1\n\ufeff---\nb: 2\n', ['1: a: 1\n', '2: ---\nb: 2\n']],
  ['dashes that are not a marker', 'a:\n- x\n----\n---b\n ---\n', ['1: a:\n- x\n----\n---b\n ---\n']],
  [
    'a marker inside a literal block ends it, as YAML says',
    'a: |\n  x\n---\nb: 2\n',
    ['1: a: |\n  x\n', '3: ---\nb: 2\n'],
  ],
])('%s', (_title, text, documents) => {
  expect(split(text)).toEqual(documents);
});

/** A form that the glossary forbids, and what to say instead. */
export interface AvoidedForm {
  readonly form: string;
  readonly pattern: RegExp;
  readonly say: string;
}

/** Where an avoided form is, and how to say it. */
export interface Finding {
  /** `packages/applier/src/daemon/daemon.ts:12` */
  readonly at: string;
  readonly form: string;
  readonly say: string;
}

/** The rows of the section "Words to avoid" of `docs/glossary.md`. */
export function readAvoidedForms(glossary: string): readonly AvoidedForm[] {
  const section = glossary.split('\n## Words to avoid\n')[1] ?? '';
  return section
    .split('\n')
    .filter((line) => /^\| (?!avoid \|)[^-]/.test(line))
    .flatMap((line) => {
      const [forms = '', say = ''] = line.slice(2).split(' | ');
      return forms.split(' / ').map((form) => ({ form, pattern: wholeWords(form), say }));
    });
}

const wholeWords = (form: string): RegExp =>
  new RegExp(String.raw`(?<![\w-])${form.replaceAll(' ', String.raw`\s+`)}(?![\w-])`, 'gi');

/** One kind of text that people read. */
export type Reader = (source: string) => Iterable<{ readonly text: string; readonly line: number }>;

/** Texts in quotes that have more than one word: messages, hints, helps, titles of tests. */
export function* sentences(source: string): ReturnType<Reader> {
  const code = source.replaceAll(/\/\*[^]*?\*\/|(?<=^|\s)\/\/.*$/gm, blank);
  for (const { 0: quoted, index } of code.matchAll(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)) {
    const text = quoted.slice(1, -1);
    if (/\S \S/.test(text)) yield { text, line: lineAt(source, index) };
  }
}

/** Exported names as words: `wayBack` reads `way back`. */
export function* exportedNames(source: string): ReturnType<Reader> {
  const declared =
    /^export (?:default )?(?:async )?(?:abstract )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;
  for (const { 1: name = '', index } of source.matchAll(declared))
    yield { text: name.replaceAll(/(?<=[a-z\d])(?=[A-Z])/g, ' ').toLowerCase(), line: lineAt(source, index) };
}

/** Markdown without what programs print or read: blocks and spans of code, and targets of links. */
export function* prose(source: string): ReturnType<Reader> {
  const text = source.replaceAll(/^```[^]*?^```$|`[^`]*`|\]\([^)]*\)/gm, blank);
  for (const [index, line] of text.split('\n').entries()) yield { text: line, line: index + 1 };
}

/** The most characters of a line or of a cell of a table, and the most words of a sentence, that can be read at once. */
const readable = { characters: 200, words: 30 };

/** The lines, cells and sentences of a page that are too long. Code is one word; paragraphs, items and cells end a sentence. */
export function walls(path: string, page: string): readonly string[] {
  const text = page
    .replaceAll(/^```[^]*?^```$|<!--[^]*?-->|(?<=\n\n)(?: {4}.*\n)+/gm, (block) => block.replaceAll(/.+/g, ''))
    .replaceAll(/\]\([^)]*\)/g, ']');
  const lines = text.split('\n').flatMap((line, index) => {
    const most = Math.max(...(line.startsWith('|') ? line.split(' | ') : [line]).map(({ length }) => length));
    return most > readable.characters ? [`${path}:${index + 1}: ${most} characters`] : [];
  });
  const parts = text.replaceAll(/`[^`]*`/g, 'code').split(/\n(?=\s*(?:[-*|#]|\d+\. ))|\n\s*\n| \| /);
  const counted = parts
    .flatMap((part) => part.trim().split(/(?<=[.!?][*)_]*)\s+/))
    .map((sentence) => ({ sentence, words: sentence.split(/\s+/).length }));
  const long = counted.filter(({ words }) => words > readable.words);
  return [...lines, ...long.map(({ sentence, words }) => `${path}: ${words} words: ${sentence}`)];
}

const blank = (text: string): string => text.replaceAll(/[^\n]/g, ' ');

const lineAt = (source: string, index: number): number => source.slice(0, index).split('\n').length;

/** What of a text has an avoided form. */
export function findAvoided(
  path: string,
  source: string,
  read: Reader,
  forms: readonly AvoidedForm[],
): readonly Finding[] {
  return [...read(source)].flatMap(({ text, line }) =>
    forms.flatMap(({ form, pattern, say }) =>
      [...text.matchAll(pattern)].map(({ index }) => ({ at: `${path}:${line + lineAt(text, index) - 1}`, form, say })),
    ),
  );
}

import fc from 'fast-check';

/**
 * YAML documents for the differential test: some built by the rules of block style from scalars that are easy to misread,
 * the others real documents with a few characters or lines changed, which need not be YAML at all.
 */
export function yamlDocument(real: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 2, arbitrary: built },
    { weight: 1, arbitrary: mutated(built, 3) },
    { weight: 2, arbitrary: mutated(fc.constantFrom(...real), 2) },
  );
}

const words =
  'a web-1 null Null ~ true FALSE yes No y N on OFF 0 -0 7 014 08 0o14 0x1F 0b11 1_000 1:30 12:34:56 1.5 1. .5 -1.5 1e3 +1 .inf -.NaN 10.0.0.1 ' +
  '2018-02-12 2018-02-12T15:48:44Z 10.244.0.0/16 fd00::1 ::1 :a a:b a: - -- --- -a -1 ... = << ? ?a | > |- & &x *x !t % @ ` , [ ] { } {} [] ' +
  '{a:1} [a] {} #c a#b a\\b \'q\' "q" "a\\n" \'it\'\'s\' "a: b" \'# c\' f:metadata k:{"port":80} __proto__ constructor toString é \u00a0 \ufeff /x $x (x) ' +
  '12345678901234567890 99999999999999999 Infinity NaN undefined < > = ~a ~ \u2028';
const awkward = fc.constantFrom(...words.split(' ').filter((word) => word !== ''), '');
const scalar = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.constantFrom('web', 'ClusterIP', '80', '10.96.0.10', '"8080"', "'true'", 'null', '{}', '[]', ''),
  },
  { weight: 2, arbitrary: awkward },
  { weight: 1, arbitrary: fc.tuple(awkward, awkward).map(([first, second]) => `${first} ${second}`) },
);
const key = fc.oneof(
  {
    weight: 40,
    arbitrary: fc.constantFrom(
      'kind',
      'name',
      'spec',
      'ports',
      'app.kubernetes.io/name',
      '"quoted"',
      "'k'",
      'f:spec',
      'port',
    ),
  },
  { weight: 1, arbitrary: awkward },
);
const tail = fc.constantFrom(...Array<string>(9).fill(''), ' ', ' # note', '  #', '#x');
const filler = fc.constantFrom(...Array<string>(24).fill(''), '\n', '# note\n', '  # note\n', '   \n');

const texts = [
  ...Array<string>(20).fill('text'),
  '',
  '',
  '  deeper',
  '# no comment',
  'a: b',
  '---',
  'text ',
  ' ',
  '   ',
];

const parts =
  `word|word|word|two words|it''s|\\"x\\"|\\\\|\\n|\\u00e9|\\ud83d\\ude00|\\/|- a|-|# no|a #b|a: b|key:|: x||{a|}|"q|'q|x |  x|0|null|---|...|?|é`.split(
    '|',
  );
const indents = fc.constantFrom(2, 2, 2, 2, 2, 1, 0);

/** Lines of a node, the first one without its indentation. */
type YamlLinesOfNode = { readonly lines: readonly string[]; readonly inline: boolean };

const { map, list } = fc.letrec<{
  node: YamlLinesOfNode;
  map: YamlLinesOfNode;
  list: YamlLinesOfNode;
  leaf: YamlLinesOfNode;
  lines: YamlLinesOfNode;
  block: YamlLinesOfNode;
}>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 8, arbitrary: tie('leaf') },
    { weight: 3, arbitrary: tie('map') },
    { weight: 3, arbitrary: tie('list') },
    { weight: 1, arbitrary: tie('block') },
    { weight: 1, arbitrary: tie('lines') },
  ),
  leaf: fc.tuple(scalar, tail).map(([text, end]) => ({ lines: [text + end], inline: true })),
  lines: fc
    .tuple(
      fc.constantFrom('', "'", '"'),
      fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 4 }),
      indents,
      tail,
    )
    .map(([quote, [first, ...rest], by, end]) => {
      const text = [quote + first, ...rest.map((line) => ' '.repeat(by) + line)].join('\n');
      return { lines: (text + quote + end).split('\n'), inline: true };
    }),
  block: fc
    .tuple(fc.constantFrom('|', '|', '|', '|-', '|-', '|+', '>', '|2', '| # c'), fc.array(fc.constantFrom(...texts)))
    .map(([header, lines]) => ({
      lines: [header, ...lines.map((line) => (line === '' ? '' : `  ${line}`))],
      inline: true,
    })),
  map: fc
    .uniqueArray(fc.tuple(key, tie('node'), tail, filler, indents), {
      minLength: 1,
      maxLength: 4,
      selector: ([name]) => name,
    })
    .map((entries) => ({
      lines: entries.flatMap(([name, child, end, blank, by]) => entry(`${name}:`, child, end, blank, by)),
      inline: false,
    })),
  list: fc
    .array(fc.tuple(tie('node'), tail, filler), { minLength: 1, maxLength: 4 })
    .map((entries) => ({ lines: entries.flatMap(([child, end, blank]) => item(child, end, blank)), inline: false })),
}));

function entry(head: string, child: YamlLinesOfNode, end: string, blank: string, by: number): string[] {
  const [first = '', ...rest] = child.lines;
  if (child.inline) return [`${blank}${head} ${first}`, ...rest];
  return [`${blank}${head}${end}`, ...child.lines.map((line) => indent(line, by))];
}

function item(child: YamlLinesOfNode, end: string, blank: string): string[] {
  const [first = '', ...rest] = child.lines;
  if (end !== '' && !child.inline) return [`${blank}-${end}`, ...child.lines.map((line) => indent(line, 2))];
  return [`${blank}- ${first}`, ...rest.map((line) => indent(line, 2))];
}

function indent(line: string, by: number): string {
  return line.replace(/^(?=.)/gm, ' '.repeat(by));
}

const built = fc
  .tuple(
    fc.constantFrom('', '', '', '---\n', '---\n', '--- # c\n', '# c\n', '--- ', '%YAML 1.2\n---\n'),
    fc.oneof(map, map, list),
    fc.constantFrom('\n', '\n', '', '\n# end\n', '\n\n'),
  )
  .map(([start, { lines }, end]) => start + lines.join('\n') + end);

const pieces = [
  ' ',
  '  ',
  '\n',
  ': ',
  ':',
  '- ',
  '-',
  '#',
  ' #',
  '"',
  "'",
  '\\',
  '{',
  '}',
  '[',
  ']',
  ',',
  '&a ',
  '*a',
  '!',
  '|',
  '>',
  '%',
  '\t',
  '\r',
  '?',
  '~',
  '0',
  'é',
  '\ufeff',
];
const mutation = fc.record({
  at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  how: fc.constantFrom('insert', 'delete', 'replace', 'repeat line', 'drop line', 'indent line'),
  piece: fc.oneof(fc.constantFrom(...pieces), awkward),
});
type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never;

function mutated(text: fc.Arbitrary<string>, times: number): fc.Arbitrary<string> {
  const changes = fc.array(mutation, { minLength: 0, maxLength: times });
  return fc.tuple(text, changes).map(([original, mutations]) => mutations.reduce(mutate, original));
}

function mutate(text: string, { at, how, piece }: Mutation): string {
  const offset = Math.floor(at * text.length);
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const end = text.indexOf('\n', offset) + 1 || text.length;
  const line = text.slice(start, end);
  const changed = {
    insert: () => text.slice(0, offset) + piece + text.slice(offset),
    delete: () => text.slice(0, offset) + text.slice(offset + 1),
    replace: () => text.slice(0, offset) + piece + text.slice(offset + piece.length),
    'repeat line': () => text.slice(0, end) + line + text.slice(end),
    'drop line': () => text.slice(0, start) + text.slice(end),
    'indent line': () => `${text.slice(0, start)} ${text.slice(start)}`,
  };
  return changed[how]();
}

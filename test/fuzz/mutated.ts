import fc from 'fast-check';

const words = [
  '\n',
  '\r',
  '\0',
  '"',
  "'",
  '\\',
  ' -j ACCEPT',
  'COMMIT',
  '*filter',
  '-M /x',
  '\u2028',
  '&a',
  '*a',
  '{}',
  '[',
  '-1',
  '1e999',
  '__proto__: 1',
  '${node.x}',
  '@local=X ',
  ' } ; flush ruleset',
  ', 10.0.0.1 . tcp . 1',
];

/** Texts derived from valid ones: a part is removed, doubled, replaced by a dangerous word, or one bit is flipped. */
export function mutated(good: readonly string[]): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(),
    length: fc.nat({ max: 40 }),
    kind: fc.constantFrom('cut', 'double', 'word', 'flip', 'text'),
    word: fc.constantFrom(...words),
    text: fc.string({ unit: 'binary', maxLength: 20 }),
  });
  const changes = fc.array(change, { minLength: 0, maxLength: 6 });
  return fc.tuple(fc.constantFrom(...good), changes).map(([text, list]) =>
    list.reduce((now, { at, length, kind, word, text: more }) => {
      const start = now.length === 0 ? 0 : at % now.length;
      const part = now.slice(start, start + length);
      const middle = { cut: '', double: part + part, word: word + part, flip: flip(part), text: more }[kind];
      return now.slice(0, start) + middle + now.slice(start + length);
    }, text),
  );
}
const flip = (part: string): string => (part === '' ? '' : String.fromCharCode(part.charCodeAt(0) ^ 4) + part.slice(1));

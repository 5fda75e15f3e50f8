import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readSave } from './save.fixture.ts';
import { SaveReader } from './save.ts';

const web = ['-A SLU-SVC-A.aa -p tcp -j SLU-SEP-A.aa', '-A SLU-SVC-A.aa -j SLU-SEP-B.aa'];
const known = {
  filter: { chains: new Map(), jumps: [] },
  nat: {
    chains: new Map([
      ['SLU-SVC-A.aa', web],
      ['SLU-EMPTY.aa', []],
    ]),
    jumps: [],
  },
};
const saved = (...lines: readonly string[]): string =>
  `# made now\n*raw\n:SLU-SVC-A.aa - [0:0]\n-A SLU-SVC-A.aa -j LOG\nCOMMIT\n*nat\n:OUTPUT ACCEPT [7:9]\n:SLU-SVC-A.aa - [0:0]\n${lines.map((line) => `${line}\n`).join('')}COMMIT\n`;
const [first = '', second = ''] = web;

test('returns the same value for a known chain', () => {
  const { nat } = readSave(saved(...web), known);
  expect(nat.chains.get('SLU-SVC-A.aa')?.rules).toBe(web);
});

test.each([
  ['a rule is gone', [first]],
  ['the first rule is gone', [second]],
  ['all rules are gone', []],
  ['a rule is there twice', [first, second, second]],
  ['rules are in another order', [second, first]],
  ['a rule says something else', [first, `${second} `]],
] as const)('reads a chain as it is when %s', (_title, rules) => {
  const { nat } = readSave(saved(...rules), known);
  expect(nat.chains.get('SLU-SVC-A.aa')).toEqual({ builtIn: false, rules });
});

test('reads all rules of a chain that are not adjacent', () => {
  const { nat } = readSave(saved(first, '-A OUTPUT -j RETURN', second), known);
  expect(nat.chains.get('SLU-SVC-A.aa')?.rules).toBe(web);
  expect(nat.chains.get('OUTPUT')).toEqual({ builtIn: true, rules: ['-A OUTPUT -j RETURN'] });
});

test('reads declared chains only', () => {
  const { filter, nat } = readSave(saved('-A SLU-EMPTY.aa -j RETURN'), known);
  expect([...nat.chains.keys()]).toEqual(['OUTPUT', 'SLU-SVC-A.aa']);
  expect(filter.chains.size).toBe(0);
});

test('parts may end anywhere', () => {
  const text = saved(...web, '-A OUTPUT -j SLU-SVC-A.aa');
  fc.assert(
    fc.property(fc.array(fc.nat(text.length), { maxLength: 12 }), (cuts) => {
      const reader = new SaveReader(known);
      let at = 0;
      for (const cut of [...cuts.toSorted((a, b) => a - b), text.length]) {
        reader.take(text.slice(at, cut));
        at = cut;
      }
      expect(reader.done()).toEqual(readSave(text));
    }),
  );
});

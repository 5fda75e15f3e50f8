import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareText } from '../problem.ts';
import { changeTable, insertions, isEmptyChange, printChange, widen } from './change.ts';
import { cart } from './cart.fixture.ts';
import { linkFlat } from './flat.ts';
import { emptyTable, type TableProgram } from './program.ts';
import { printProgram } from './text.ts';

/** A table after `iptables-restore --noflush`: chains, and the rules of built-in chains, including foreign ones. */
type Model = Map<string, string[]>;

function modelOf(program: TableProgram, foreign: readonly string[]): Model {
  const model: Model = new Map([...program.chains].map(([chain, rules]) => [chain, [...rules]]));
  for (const chain of ['INPUT', 'OUTPUT']) {
    const of = (rules: readonly string[]): string[] => rules.filter((rule) => rule.startsWith(`-A ${chain} `));
    model.set(chain, [...of(program.jumps), ...of(foreign)]);
  }
  return model;
}

/** A model of iptables-restore. @throws where it would refuse */
function restore(model: Model, payload: string): Model {
  const next: Model = new Map([...model].map(([chain, rules]) => [chain, [...rules]]));
  for (const line of payload.split('\n')) {
    const [word = '', name = '', position = ''] = line.split(' ');
    const rules = next.get(name) ?? [];
    if (word.startsWith(':')) next.set(word.slice(1), []);
    else if (word === '-A') next.get(name)?.push(line);
    else if (word === '-I')
      rules.splice(Number(position) - 1, 0, `-A ${name}${line.slice(`-I ${name} ${position}`.length)}`);
    else if (word === '-D') {
      const index = rules.indexOf(line.replace('-D', '-A'));
      if (index < 0) throw new Error(`no such rule: ${line}`);
      rules.splice(index, 1);
    } else if (word === '-X') {
      const referred = [...next.values()].flat().some((rule) => rule.endsWith(`-j ${name}`));
      if (referred || rules.length > 0) throw new Error(`chain in use: ${name}`);
      next.delete(name);
    }
  }
  return next;
}

const names = ['KUBE-A', 'KUBE-B', 'KUBE-C', 'KUBE-D'] as const;

const programs: fc.Arbitrary<TableProgram> = fc
  .record({
    chains: fc.dictionary(
      fc.constantFrom(...names),
      fc.array(fc.constantFrom('-j ACCEPT', '-j RETURN', '-s 10.0.0.1/32 -j KUBE-A', '-j KUBE-B', '-j KUBE-C'), {
        maxLength: 4,
      }),
    ),
    jumps: fc.array(fc.tuple(fc.constantFrom('INPUT', 'OUTPUT'), fc.constantFrom(...names)), { maxLength: 6 }),
  })
  .map(({ chains, jumps }) => {
    const declared = (rule: string): boolean =>
      !rule.includes('KUBE-') || Object.hasOwn(chains, rule.slice(rule.indexOf('KUBE-')));
    const entries = Object.entries(chains).map(
      ([chain, rules]) => [chain, rules.filter(declared).map((rule) => `-A ${chain} ${rule}`)] as const,
    );
    return {
      chains: new Map(entries),
      jumps: jumps.filter(([, to]) => declared(to)).map(([from, to]) => `-A ${from} -j ${to}`),
    };
  });

const foreign = ['-A INPUT -j FOREIGN-1', '-A INPUT -i lo -j ACCEPT', '-A OUTPUT -j FOREIGN-2'];

const sorted = (model: Model): readonly (readonly [string, readonly string[]])[] =>
  [...model].toSorted(([a], [b]) => compareText(a, b));

test('applying a change to one program gives the other, and foreign rules stay', () => {
  fc.assert(
    fc.property(programs, programs, (from, to) => {
      const payload = printChange('filter', changeTable(from, to));
      const after = restore(modelOf(from, foreign), payload);
      for (const [chain, rules] of modelOf(to, [])) {
        const ours = after.get(chain)?.filter((rule) => !foreign.includes(rule));
        expect(ours).toEqual(rules);
      }
      expect([...after.keys()].toSorted()).toEqual([...modelOf(to, []).keys()].toSorted());
      expect([...after.values()].flat().filter((rule) => foreign.includes(rule))).toHaveLength(foreign.length);
    }),
    runs(500),
  );
});

test('there is no change from a program to itself', () => {
  fc.assert(
    fc.property(programs, (program) => {
      const change = changeTable(program, program);
      expect([isEmptyChange(change), printChange('nat', change)]).toEqual([true, '']);
    }),
  );
});

test('widening and narrowing end with the same program as the change itself', () => {
  fc.assert(
    fc.property(programs, programs, (from, to) => {
      const wide = widen(from, to);
      const there = restore(modelOf(from, []), printChange('filter', changeTable(from, wide)));
      expect(sorted(there)).toEqual(sorted(modelOf(wide, [])));
      const back = restore(there, printChange('filter', changeTable(wide, to)));
      expect(sorted(back)).toEqual(sorted(modelOf(to, [])));
    }),
  );
});

test('a widened chain has the new rules, then the old ones that are not among them', () => {
  const from: TableProgram = {
    chains: new Map([
      ['KUBE-A', ['-A KUBE-A -j REJECT', '-A KUBE-A -j ACCEPT']],
      ['KUBE-B', []],
    ]),
    jumps: [],
  };
  const to: TableProgram = {
    chains: new Map([['KUBE-A', ['-A KUBE-A -j DROP', '-A KUBE-A -j REJECT --reject-with icmp-port-unreachable']]]),
    jumps: [],
  };
  expect([...widen(from, to).chains]).toEqual([
    ['KUBE-A', ['-A KUBE-A -j DROP', '-A KUBE-A -j REJECT --reject-with icmp-port-unreachable', '-A KUBE-A -j ACCEPT']],
    ['KUBE-B', []],
  ]);
});

const one = (chain: string, ...rules: readonly string[]): TableProgram => ({
  chains: new Map([[chain, rules]]),
  jumps: [],
});

test.each<[string, TableProgram, TableProgram, string]>([
  [
    'a new chain is written',
    emptyTable,
    one('KUBE-A', '-A KUBE-A -j ACCEPT'),
    '*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j ACCEPT\nCOMMIT\n',
  ],
  [
    'a chain that is no longer wanted is emptied and deleted',
    one('KUBE-A'),
    emptyTable,
    '*nat\n:KUBE-A - [0:0]\n-X KUBE-A\nCOMMIT\n',
  ],
  [
    'rules that only lead on are deleted alone',
    one('KUBE-A', '-A KUBE-A -m set --match-set S src -g KUBE-C', '-A KUBE-A -g KUBE-B', '-A KUBE-A -g KUBE-C'),
    one('KUBE-A', '-A KUBE-A -g KUBE-C'),
    '*nat\n-D KUBE-A -m set --match-set S src -g KUBE-C\n-D KUBE-A -g KUBE-B\nCOMMIT\n',
  ],
  [
    'the second of two equal rules is not deleted alone',
    one('KUBE-A', '-A KUBE-A -j KUBE-B', '-A KUBE-A -j KUBE-C', '-A KUBE-A -j KUBE-B'),
    one('KUBE-A', '-A KUBE-A -j KUBE-B', '-A KUBE-A -j KUBE-C'),
    '*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j KUBE-B\n-A KUBE-A -j KUBE-C\nCOMMIT\n',
  ],
  [
    'a rule with other matches is not deleted alone',
    one('KUBE-A', '-A KUBE-A -j KUBE-B', '-A KUBE-A -m mark --mark 0x1 -j KUBE-C'),
    one('KUBE-A', '-A KUBE-A -j KUBE-B'),
    '*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j KUBE-B\nCOMMIT\n',
  ],
  [
    'a rule in another spelling is no change',
    one('KUBE-A', '-A KUBE-A -d 10.0.0.1 -j ACCEPT'),
    one('KUBE-A', '-A KUBE-A -d 10.0.0.1/32 -j ACCEPT'),
    '',
  ],
  [
    'a shared chain keeps the rules of the kubelet where we have none',
    one('KUBE-FIREWALL', '-A KUBE-FIREWALL -j DROP'),
    one('KUBE-FIREWALL'),
    '',
  ],
  [
    'a shared chain keeps the rules of the kubelet before ours',
    one('KUBE-FIREWALL', '-A KUBE-FIREWALL -j RETURN'),
    one('KUBE-FIREWALL', '-A KUBE-FIREWALL -j DROP'),
    '*nat\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -j RETURN\n-A KUBE-FIREWALL -j DROP\nCOMMIT\n',
  ],
  ['a shared chain is not deleted', one('KUBE-FIREWALL', '-A KUBE-FIREWALL -j DROP'), emptyTable, ''],
  [
    'a jump to a shared chain that is no longer wanted stays',
    { ...one('KUBE-FIREWALL'), jumps: ['-A INPUT -j KUBE-FIREWALL'] },
    emptyTable,
    '',
  ],
  [
    'a jump that is missing brings all jumps of its built-in chain into order, and no others',
    { chains: new Map(), jumps: ['-A INPUT -j KUBE-B', '-A OUTPUT -j KUBE-B'] },
    { chains: new Map(), jumps: ['-A INPUT -j KUBE-A', '-A INPUT -j KUBE-B', '-A OUTPUT -j KUBE-B'] },
    '*nat\n-D INPUT -j KUBE-B\n-I INPUT 1 -j KUBE-A\n-I INPUT 2 -j KUBE-B\nCOMMIT\n',
  ],
  [
    'a jump too many is deleted alone',
    { chains: new Map(), jumps: ['-A INPUT -j KUBE-A', '-A INPUT -j KUBE-B', '-A INPUT -j KUBE-C'] },
    { chains: new Map(), jumps: ['-A INPUT -j KUBE-A', '-A INPUT -j KUBE-C'] },
    '*nat\n-D INPUT -j KUBE-B\nCOMMIT\n',
  ],
])('%s', (_title, from, to, payload) => {
  expect(printChange('nat', changeTable(from, to))).toBe(payload);
});

test('a printed program equals the change from an empty one, table by table', () => {
  const { program } = linkFlat(cart(), 'ipv4');
  const payloads = (['filter', 'nat'] as const).map((table) =>
    printChange(table, changeTable(emptyTable, program[table])),
  );
  expect(printProgram(program)).toBe(payloads.join(''));
});

test('positions are counted per built-in chain', () => {
  expect(insertions(['-A INPUT -j KUBE-A', '-A OUTPUT -j KUBE-A', '-A INPUT -j KUBE-B'])).toEqual([
    '-I INPUT 1 -j KUBE-A',
    '-I OUTPUT 1 -j KUBE-A',
    '-I INPUT 2 -j KUBE-B',
  ]);
});

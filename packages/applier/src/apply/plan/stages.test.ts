import fc from 'fast-check';
import { changeTable, emptyTable, printChange, type TableProgram } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import { expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { plan } from './plan.ts';
import { printStaged, stages } from './stages.ts';

/** Chains that lead only to chains with a higher number: no circles, as linking makes sure. */
const program: fc.Arbitrary<TableProgram> = fc
  .uniqueArray(fc.integer({ min: 1, max: 30 }), { maxLength: 25 })
  .chain((numbers) =>
    fc.tuple(
      fc.constant(numbers.toSorted((a, b) => a - b)),
      fc.array(fc.nat(100), { minLength: 25, maxLength: 25 }),
      fc.boolean(),
    ),
  )
  .map(([numbers, picks, jumps]) => {
    const chains = new Map<string, string[]>([['KUBE-SERVICES', []]]);
    for (const [at, number] of numbers.entries()) {
      const later = numbers.slice(at + 1);
      const to = later[(picks[at] ?? 0) % (later.length + 1)];
      chains.set(
        `KUBE-N-${number}`,
        to === undefined ? [`-A KUBE-N-${number} -j RETURN`] : [`-A KUBE-N-${number} -j KUBE-N-${to}`],
      );
      if ((picks[at] ?? 0) % 2 === 0) chains.get('KUBE-SERVICES')?.push(`-A KUBE-SERVICES -j KUBE-N-${number}`);
    }
    return { chains, jumps: jumps ? ['-A OUTPUT -j KUBE-SERVICES'] : [] };
  });

/** The part of a table that packets can meet: the jumps, and every chain that they lead to. */
function reachable({ chains, jumps }: TableProgram): string {
  const met = new Map<string, readonly string[]>();
  const follow = (rules: readonly string[]): void => {
    for (const rule of rules) {
      const target = rule.split(' ').at(-1) ?? '';
      if (met.has(target) || !chains.has(target)) continue;
      met.set(target, chains.get(target) ?? []);
      follow(chains.get(target) ?? []);
    }
  };
  follow(jumps);
  return JSON.stringify([jumps, [...met].toSorted(([a], [b]) => (a < b ? -1 : 1))]);
}

test('reaches the desired state in any batches, and packets meet the old or the new program and no other', () => {
  fc.assert(
    fc.property(program, program, fc.integer({ min: 1, max: 6 }), (from, to, most) => {
      const kernel = new FakeKernel();
      kernel.load('ipv4', `*nat\n${[...from.chains.keys()].map((name) => `:${name} - [0:0]\n`).join('')}COMMIT\n`);
      kernel.load('ipv4', printChange('nat', changeTable({ ...from, chains: new Map(), jumps: [] }, from)));
      const known = [reachable(from), reachable(to)];
      let previous = from;
      for (const state of stages(from, to, most)) {
        const text = printChange('nat', changeTable(previous, state));
        if (text !== '') kernel.load('ipv4', text);
        expect(known).toContain(reachable(state));
        previous = state;
      }
      expect(previous).toBe(to);
    }),
    runs(300),
  );
});

test('loads a program in sections like the whole program', () => {
  fc.assert(
    fc.property(program, fc.integer({ min: 1, max: 6 }), (nat, most) => {
      const [whole, parts] = [new FakeKernel(), new FakeKernel()];
      whole.load('ipv4', printStaged({ filter: emptyTable, nat }, 1000));
      parts.load('ipv4', printStaged({ filter: emptyTable, nat }, most));
      expect(parts.save('ipv4')).toBe(whole.save('ipv4'));
    }),
    runs(200),
  );
});

test('a plan from a state to itself is empty', () => {
  fc.assert(
    fc.property(program, (nat) => {
      const state = { families: { ipv4: { filter: emptyTable, nat } }, sysctls: new Map() };
      expect(plan(state, state, { slowWithManyChains: true }).steps).toEqual([]);
    }),
    runs(100),
  );
});

import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cart } from '../cart.fixture.ts';
import { emptyTable, type FamilyProgram, type ResolvedRules } from '../program.ts';
import { addresses, rulesOf, type ServiceSpec } from './cluster.fixture.ts';
import { settledProgram } from './flatten.ts';
import { linkTree, sectionsOf, type TreeOptions } from './link.ts';
import { TreeMemory } from './memory.ts';
import { naturalName } from './names.ts';
import type { TreeProgram, TreeTable } from './program.ts';
import { readBack } from './read-back.fixture.ts';
import { printProgram } from '../text.ts';

function link(rules: ResolvedRules, options: Partial<TreeOptions> = {}): TreeProgram {
  const { program, problems } = linkTree(sectionsOf(rules), { family: 'ipv4', ...options });
  expect(problems).toEqual([]);
  return program;
}

const service = (cluster: string, more: Partial<ServiceSpec> = {}): ServiceSpec => ({
  protocol: 'tcp',
  port: 80,
  cluster,
  endpoints: 1,
  local: false,
  ...more,
});

test('session affinity checks its time-out without --reap, because both programs of a probation share the list', () => {
  const asks = [...link(cart()).nat.chains.values()].flatMap(({ rules }) =>
    rules.filter((rule) => rule.includes('--rcheck')),
  );
  expect(asks.length).toBeGreaterThan(0);
  for (const rule of asks) {
    expect(rule).toContain(' --seconds 600 --name KUBE-SEP-');
    expect(rule).not.toContain('--reap');
  }
});

describe('bounds', () => {
  const refuse = (address: string): string => `-A KUBE-SERVICES -d ${address} -p tcp -m tcp --dport 80 -j REJECT`;

  /** Chains and rules on the longest path from the root of filter SLUICE-SERVICES. */
  function longest(program: TreeProgram): { readonly levels: number; readonly steps: number } {
    const { chains, entries } = program.filter;
    const walk = (name: string): { levels: number; steps: number } => {
      const lines = chains.get(name)?.rules ?? [];
      const below = lines.flatMap((line, at) => {
        const target = / -[jg] (SLUICE-T-\S+)$/.exec(line)?.[1];
        return target === undefined ? [] : [{ at, ...walk(target) }];
      });
      const levels = Math.max(0, ...below.map((one) => one.levels)) + 1;
      return { levels, steps: Math.max(lines.length, ...below.map((one) => one.at + 1 + one.steps)) };
    };
    const { levels, steps } = walk(entries.get('SLUICE-SERVICES') ?? '');
    return { levels: levels - 1, steps: steps - 1 };
  }

  test.each(['ipv4', 'ipv6'] as const)(
    '%s: nested prefixes, runs and scattered addresses stay within six levels and 64 rules',
    (family) => {
      const list = fc.uniqueArray(fc.oneof(addresses(family), addresses(family)), {
        minLength: 500,
        maxLength: 3000,
        size: 'max',
      });
      fc.assert(
        fc.property(list, (all) => {
          const chains = ['KUBE-SERVICES'];
          const program = link(
            { filter: { chains, rules: all.map(refuse) }, nat: { chains: [], rules: [] } },
            { family },
          );
          const { levels, steps } = longest(program);
          expect(levels).toBeLessThanOrEqual(6);
          expect(steps).toBeLessThanOrEqual(64);
        }),
        { ...runs(4), endOnFailure: true },
      );
    },
  );

  test('a comb of nested prefixes, the worst case of a trie, stays within the limits', () => {
    // Each of 100 nested prefixes has twenty addresses.
    const all = Array.from({ length: 100 }, (_, depth) =>
      Array.from({ length: 20 }, (_unused, low) => comb(depth, low)),
    ).flat();
    const rules = { filter: { chains: ['KUBE-SERVICES'], rules: all.map(refuse) }, nat: { chains: [], rules: [] } };
    const { levels, steps } = longest(link(rules, { family: 'ipv6' }));
    expect(levels).toBeLessThanOrEqual(6);
    expect(steps).toBeLessThanOrEqual(64);
  });

  function comb(depth: number, low: number): string {
    const words = [0, 0, 0, 0, 0, 0, 0, low + 1];
    words[depth >> 4] = (words[depth >> 4] ?? 0) | (0x8000 >> (depth & 15));
    return words.map((word) => word.toString(16)).join(':');
  }

  test('addresses with ports of three protocols, which no prefix can halve, stay within six levels', () => {
    const asked = fc.record({
      // Of 2^0 to 2^20 addresses from 10.96.0.0 on: prefixes nest.
      address: fc.integer({ min: 0, max: 20 }).chain((bits) => fc.nat(2 ** bits - 1)),
      protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
      port: fc.integer({ min: 1, max: 65_535 }),
    });
    const rule = ({ address, protocol, port }: typeof asked extends fc.Arbitrary<infer T> ? T : never): string =>
      `-A KUBE-SERVICES -d 10.${96 + (address >> 16)}.${(address >> 8) & 255}.${address & 255} -p ${protocol} -m ${protocol} --dport ${port} -j REJECT`;
    const lists = fc.uniqueArray(asked.map(rule), { minLength: 9_000, maxLength: 20_000, size: 'max' });
    fc.assert(
      fc.property(lists, (rules) => {
        const { levels, steps } = longest(
          link({ filter: { chains: ['KUBE-SERVICES'], rules }, nat: { chains: [], rules: [] } }),
        );
        expect(levels).toBeLessThanOrEqual(6);
        expect(steps).toBeLessThanOrEqual(64);
      }),
      { ...runs(3), endOnFailure: true },
    );
  });

  test('more rules for one address and port than the limit are refused with the reason', () => {
    const rules = Array.from(
      { length: 70 },
      (_, at) => `-A KUBE-SERVICES -s 10.0.0.${at} -d 10.96.0.1 -p tcp -m tcp --dport 80 -j REJECT`,
    );
    const { problems } = linkTree(
      sectionsOf({ filter: { chains: ['KUBE-SERVICES'], rules }, nat: { chains: [], rules: [] } }),
      { family: 'ipv4' },
    );
    expect(problems.map(({ code, message }) => `${code} ${message}`)).toEqual([
      'PROGRAM_LIMIT Cannot link KUBE-SERVICES of ipv4 filter as a tree: a packet traverses up to 70 rules (limit: 64)',
    ]);
  });

  test.each([
    [
      'a rule for all packets before one for an address',
      ['-A KUBE-SERVICES -j DROP', refuse('10.96.0.1')],
      'comes after a rule that is tested for every packet',
    ],
    ['a chain of another program', ['-A KUBE-ROUTER-X -j DROP'], 'is not declared in this table'],
    [
      'DNAT in filter',
      ['-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:80'],
      'valid only in the nat table',
    ],
  ])('%s is refused', (_title, rules, why) => {
    const { problems } = linkTree(
      sectionsOf({ filter: { chains: ['KUBE-SERVICES'], rules }, nat: { chains: [], rules: [] } }),
      { family: 'ipv4' },
    );
    expect(problems.map(({ message }) => message).join('\n')).toContain(why);
  });
});

describe('names', () => {
  const many = Array.from({ length: 300 }, (_, at) => service(`10.96.${at >> 6}.${at & 63}`));

  test('every name has a tag and is at most 28 characters long', () => {
    const { chains } = link(rulesOf(many, 'ipv4')).nat;
    for (const name of chains.keys())
      expect(name).toMatch(/^(?=.{26,28}$)(SLU-(SVC|SVL|EXT|FW|SEP|GRP)|SLUICE-[RT])-[A-Z2-7]{16}\.[0-9a-z]{2}$/);
  });

  test('adding one Service rewrites one path, and every other chain keeps its name', () => {
    const from = link(rulesOf(many, 'ipv4')).nat;
    const to = link(rulesOf([...many, service('10.96.40.1')], 'ipv4')).nat;
    const [added, removed] = [namesBut(to, from), namesBut(from, to)];
    expect(added.filter((name) => !name.startsWith('SLU-')).length).toBeLessThanOrEqual(7);
    expect(removed.length).toBeLessThanOrEqual(7);
  });

  test('names depend neither on the order of files, nor on earlier programs, nor on the kernel', () => {
    const files = [...sectionsOf(rulesOf(many.slice(0, 50), 'ipv4'))];
    const memory = new TreeMemory();
    const first = linkTree(files, { family: 'ipv4' }, memory).program;
    const taken = settledProgram(first);
    for (const again of [linkTree(files, { family: 'ipv4' }, memory), linkTree(files, { family: 'ipv4', taken })]) {
      expect([...again.program.nat.chains.keys()].toSorted()).toEqual([...first.nat.chains.keys()].toSorted());
    }
  });

  test('a name that the kernel has for other rules is skipped, and the replacement is found again afterwards', () => {
    const usual = link(cart());
    for (const name of usual.nat.chains.keys()) {
      const moved = link(cart(), { taken: heldElse([name]) });
      expect(moved.nat.chains.has(name)).toBe(false);
      // Later the name is free again, but the kernel has the program under the names that it was loaded with.
      const later = link(cart(), { taken: settledProgram(moved) });
      expect([...later.nat.chains.keys()].toSorted()).toEqual([...moved.nat.chains.keys()].toSorted());
    }
  });

  test('different rules never share a name, even when every natural name is taken', () => {
    const usual = link(cart());
    const taken = heldElse(usual.nat.chains.keys());
    const moved = link(cart(), { taken });
    expect([...moved.nat.chains.keys()].filter((name) => taken.nat.chains.has(name))).toEqual([]);
    expect(moved.nat.chains.size).toBe(usual.nat.chains.size);
  });

  test('a natural name is derived from the digest', () => {
    for (const { name, digest } of link(cart()).nat.chains.values()) {
      const stem = name.startsWith('SLUICE-') ? name.slice(0, 8) : name.slice(0, -3);
      expect(naturalName(stem, digest)).toBe(name);
    }
  });
});

/** The names of chains that one table has and another lacks. */
const namesBut = ({ chains }: TreeTable, other: TreeTable): readonly string[] =>
  [...chains.keys()].filter((name) => !other.chains.has(name));

/** A kernel with other rules under these names. */
const heldElse = (names: Iterable<string>): FamilyProgram => ({
  filter: emptyTable,
  nat: { chains: new Map([...names].map((name) => [name, [`-A ${name} -j ACCEPT`]] as const)), jumps: [] },
});

describe('what is loaded', () => {
  const program = link(
    rulesOf([service('10.96.0.1', { endpoints: 70, nodePort: 30_000 }), service('10.96.0.2')], 'ipv4'),
  );

  test('each chain comes after all that it jumps to, and none jumps to an unknown name', () => {
    for (const { chains, baseChains } of [program.filter, program.nat]) {
      const seen = new Set(baseChains.keys());
      const stray: string[] = [];
      for (const chain of chains.values()) {
        for (const line of chain.rules) {
          const target = / -[jg] (SLU\S+)$/.exec(line)?.[1];
          if (target !== undefined && !seen.has(target)) stray.push(line);
        }
        seen.add(chain.name);
      }
      expect(stray).toEqual([]);
    }
  });

  test('a printed program reads back; a changed, a missing and a foreign rule are detected', () => {
    const text = printProgram(settledProgram(program)).replaceAll(/^-I (\S+) \d+/gm, '-A $1');
    const observed = readBack(text, 'ipv4').nat;
    expect([...observed.chains]).toEqual([...program.nat.chains].map(([name, { digest }]) => [name, digest]));
    expect(observed.jumps).toEqual(program.nat.jumps);
    const [line] = /^-A SLU-SVC.*$/m.exec(text) ?? [''];
    const chain = line.split(' ')[1] ?? '';
    for (const edited of [
      text.replace(`${line}\n`, ''),
      text.replace(line, `${line}\n-A ${chain} -j ACCEPT`),
      text.replace(line, line.replace(/-[jg] /, '-m comment --comment x $&')),
    ]) {
      const found = readBack(edited, 'ipv4').nat.chains;
      expect(
        [...found].filter(([name, digest]) => program.nat.chains.get(name)?.digest !== digest).map(([name]) => name),
      ).toEqual([chain]);
    }
  });
});

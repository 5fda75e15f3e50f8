// @module-tag test
import {
  canonicalRule,
  changeTable,
  emptyTable,
  type Family,
  type FamilyProgram,
  isEmptyChange,
  isRuleError,
  linkFlat,
  printChange,
  printProgram,
  printRule,
  readRule,
  type TableProgram,
  tableNames,
} from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import { cart, cartIPv6 } from '../../packages/netfilter/src/link/cart.fixture.ts';
import { needKernel } from './privileges.ts';
import { feed, inScratchNamespace } from './scratch.ts';

beforeEach(needKernel);

/** Forms that the Service `shop/cart` does not use, as kube-proxy writes them. */
const otherForms: Readonly<Record<Family, readonly string[]>> = {
  ipv4: [
    '-j REJECT',
    '-p tcp -j REJECT --reject-with tcp-reset',
    '-j REJECT --reject-with icmp-admin-prohibited',
    '-s 0.0.0.0/0 -d 10.1.2.3/8 -j ACCEPT',
    '! -s 10.0.0.1 -j DROP',
  ],
  ipv6: [
    '-j REJECT',
    '-j REJECT --reject-with icmp6-adm-prohibited',
    '-s ::/0 -d FD00:0:0:0:1::9/64 -j ACCEPT',
    '-d 2001:db8:0:1:1:1:1:1 -j DROP',
  ],
};

const bothFamilies: readonly string[] = [
  '-i cali+ -j RETURN',
  '! -i cni0 -g KUBE-FORWARD',
  '-p udp -j ACCEPT',
  '-m udp -p udp --dport 53 -j ACCEPT',
  '-m sctp -p sctp --dport 1 -j ACCEPT',
  '-m addrtype --src-type LOCAL -j ACCEPT',
  '-m conntrack ! --ctstate UNTRACKED,DNAT,SNAT,NEW -j ACCEPT',
  '-m mark --mark 0x1 -j ACCEPT',
  '-m mark --mark 0x0 -j ACCEPT',
  '-m mark ! --mark 0x80000000/0x80000000 -j ACCEPT',
  '-j MARK --set-xmark 0x1/0xffffffff',
  '-j MARK --or-mark 0x80000000',
  '-m comment --comment safe_word-1 -j ACCEPT',
  String.raw`-m comment --comment "it's \"quoted\" \\ and $HOME" -j ACCEPT`,
  '-m recent --name KUBE-SEP-A --rcheck --seconds 10800 -j ACCEPT',
  ...[1, 2, 3, 7, 9, 60, 1000, 4096, 12288, 65_521].map(
    (count) => `-m statistic --mode random --probability ${(1 / count).toFixed(10)} -j ACCEPT`,
  ),
];

/** The Service and every other form, linked; the forms are in a chain that the Service leaves empty. */
function everything(family: Family): FamilyProgram {
  const rules = family === 'ipv4' ? cart() : cartIPv6();
  const forms = [...bothFamilies, ...otherForms[family]].map((rest) => `-A KUBE-EXTERNAL-SERVICES ${rest}`);
  const filter = { chains: rules.filter.chains, rules: [...rules.filter.rules, ...forms] };
  const { program, problems } = linkFlat({ ...rules, filter }, family);
  expect(problems).toEqual([]);
  return program;
}

/** A smaller program: without one chain and its jump, and with a rule less in every chain of nat. */
function smaller(program: FamilyProgram): FamilyProgram {
  const chains = new Map([...program.filter.chains].filter(([chain]) => chain !== 'KUBE-NODEPORTS'));
  const jumps = program.filter.jumps.filter((jump) => !jump.endsWith('-j KUBE-NODEPORTS'));
  const nat = new Map([...program.nat.chains].map(([chain, rules]) => [chain, rules.slice(1)] as const));
  return { filter: { chains, jumps }, nat: { chains: nat, jumps: program.nat.jumps } };
}

/** The output of iptables-save as programs: chains that are ours, and rules of built-in chains, foreign ones too. */
function readSaved(text: string): Record<'filter' | 'nat', TableProgram> {
  const saved = { filter: { chains: new Map(), jumps: [] }, nat: { chains: new Map(), jumps: [] } } as Record<
    'filter' | 'nat',
    { chains: Map<string, string[]>; jumps: string[] }
  >;
  let table = saved.filter;
  for (const line of text.split('\n')) {
    const [word = '', chain = ''] = line.split(' ');
    if (word === '*filter') table = saved.filter;
    if (word === '*nat') table = saved.nat;
    if (word.startsWith(':KUBE-')) table.chains.set(word.slice(1), []);
    if (word === '-A') (table.chains.get(chain) ?? table.jumps).push(line);
  }
  return saved;
}

const foreign = '-A INPUT -i lo -m comment --comment "not ours" -j ACCEPT';

describe.each([
  ['ipv4', 'iptables-nft'],
  ['ipv4', 'iptables-legacy'],
  ['ipv6', 'ip6tables-nft'],
  ['ipv6', 'ip6tables-legacy'],
] as const)('%s with %s', (family, tool) => {
  const restore = (payload: string): string => feed(`${tool}-restore --noflush`, payload);
  const change = (from: FamilyProgram, to: FamilyProgram): string =>
    tableNames.map((table) => restore(printChange(table, changeTable(from[table], to[table])))).join('');

  test('loaded rules are read back as equal, and printed exactly as iptables-save prints them', () => {
    const program = everything(family);
    const saved = readSaved(inScratchNamespace(`${restore(printProgram(program))}${tool}-save\n`));
    for (const table of tableNames) {
      expect(isEmptyChange(changeTable(saved[table], program[table]))).toBe(true);
      for (const [chain, lines] of saved[table].chains) {
        const expected = program[table].chains.get(chain)?.map((rule) => exact(rule, family));
        expect(lines).toEqual(expected);
        expect(lines.map(canonicalRule)).toEqual(program[table].chains.get(chain)?.map(canonicalRule));
      }
      expect(saved[table].jumps).toEqual(program[table].jumps.map((rule) => exact(rule, family)).toSorted(byBuiltIn));
    }
  });

  test('changes go forward, back and to nothing, and leave foreign rules', () => {
    const big = everything(family);
    const small = smaller(big);
    const empty: FamilyProgram = { filter: emptyTable, nat: emptyTable };
    const steps = [empty, big, small, big, empty];
    const script = steps
      .slice(1)
      .map((to, index) => `${change(steps[index] ?? empty, to)}${tool}-save\necho =====\n`)
      .join('');
    const output = inScratchNamespace(restore(`*filter\n${foreign}\nCOMMIT\n`) + script).split('=====\n');
    for (const [index, to] of steps.slice(1).entries()) {
      const saved = readSaved(output[index] ?? '');
      expect(saved.filter.jumps).toContain(foreign);
      const ours = { ...saved.filter, jumps: saved.filter.jumps.filter((rule) => rule !== foreign) };
      expect(leftOf(ours, to.filter)).toEqual([]);
      expect(leftOf(saved.nat, to.nat)).toEqual([]);
    }
  });
});

/** The steps that a change would still take. The shared chain and the jumps to it stay in any case. */
function leftOf(saved: TableProgram, expected: TableProgram): readonly string[] {
  return printChange('filter', changeTable(saved, expected)).split('\n').filter(Boolean);
}

function exact(text: string, family: Family): string {
  const rule = readRule(text, family);
  return isRuleError(rule) ? rule.error : printRule(rule, family);
}

const builtIns = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

/** The order in which iptables-save prints built-in chains. */
function byBuiltIn(a: string, b: string): number {
  return builtIns.indexOf(a.split(' ')[1] ?? '') - builtIns.indexOf(b.split(' ')[1] ?? '');
}

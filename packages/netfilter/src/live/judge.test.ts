import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type TraceFlow, untouched } from '../packet/flow.ts';
import { parseAddress } from '../rules/address.ts';
import { iptablesTable } from './iptables.ts';
import type { LiveHook, LiveTable } from './rule.ts';
import { walkBase } from './walk.ts';

const destination = parseAddress('10.96.0.10')!;
const packet: TraceFlow = {
  source: parseAddress('10.244.1.7')!,
  destination,
  port: 80,
  ...untouched,
};

const hookOf = (isMarkHidden: boolean): LiveHook => ({
  name: 'FORWARD',
  type: 'filter',
  priority: 0,
  family: 'ipv4',
  protocol: 'tcp',
  in: undefined,
  hidden: { source: false, mark: isMarkHidden },
  outOf: () => undefined,
  remembers: undefined,
  state: 'NEW',
  isLocal: () => false,
  original: { destination, port: 80 },
  notes: { doubts: new Map(), untracking: new Set(), assumed: new Set(), met: { rules: 0 } },
});

/** What a judge learns of a packet, with the shares of what it meets several times added. @param mark undefined: hidden */
function metBy(table: LiveTable, mark?: number): ReadonlyMap<string, number> {
  const met = new Map<string, number>();
  const [base] = table.bases;
  walkBase(table, base!, { ...packet, mark: mark ?? 0 }, hookOf(mark === undefined), {
    meet: (rule, decision, share) => {
      const key = `${decision} ${rule?.text ?? 'policy'}`;
      met.set(key, (met.get(key) ?? 0) + share);
    },
    effort: { left: 100_000 },
  });
  return met;
}

const chains = ['FORWARD', 'A', 'B'] as const;
const bits = [1, 2, 4, 8];
const marks = Array.from({ length: 16 }, (_, mark) => mark);
const tests = ['', '-p udp', ...bits.map((bit) => `-m mark --mark ${hex(bit)}/${hex(bit)}`)];
const ends = ['-j ACCEPT', '-j DROP', '-j RETURN', '-j LOG', '-j CT --notrack', '-j DNAT --to-destination 10.1.1.1:1'];

function hex(bit: number): string {
  return `0x${bit.toString(16)}`;
}

/** Chains jump to later ones alone, and ask for each bit once: what a packet has of one says nothing of another. */
const rulesOf = (at: number): fc.Arbitrary<readonly string[]> => {
  const calls = chains.slice(at + 1).flatMap((chain) => [`-j ${chain}`, `-g ${chain}`]);
  const rule = fc.tuple(fc.constantFrom(...tests), fc.constantFrom(...ends, ...calls));
  return fc.array(rule, { maxLength: 6 }).map((list) => list.map(([asked, does]) => `${asked} ${does}`.trim()));
};
const tables = fc
  .tuple(fc.constantFrom('ACCEPT', 'DROP'), rulesOf(0), rulesOf(1), rulesOf(2))
  .map(([policy, ...lists]) => {
    const asked = new Set<string>();
    const isFresh = (rule: string): boolean => {
      const bit = /--mark (\S+)/.exec(rule)?.[1];
      if (bit === undefined) return true;
      if (asked.has(bit)) return false;
      asked.add(bit);
      return true;
    };
    const rules = new Map(
      chains.map((chain, at) => [
        chain,
        lists[at]!.filter(isFresh).map((rule, n) => `-A ${chain} ${rule} -m comment --comment ${n}`),
      ]),
    );
    return iptablesTable({
      store: 'nft',
      family: 'ipv4',
      name: 'filter',
      policies: new Map([['FORWARD', policy]]),
      rules,
      sets: new Map(),
    });
  });

test('a packet meets a rule in every case exactly if it does whatever its hidden mark is', () => {
  fc.assert(
    fc.property(tables, (table) => {
      const worlds = marks.map((mark) => metBy(table, mark));
      const met = metBy(table);
      expect(new Set(met.keys())).toEqual(new Set(worlds.flatMap((world) => [...world.keys()])));
      const inAll = [...met.keys()].filter((key) => worlds.every((world) => world.has(key)));
      const certain = [...met].flatMap(([key, share]) => (share > 0.999_999 ? [key] : []));
      expect(certain.toSorted()).toEqual(inAll.toSorted());
    }),
  );
});

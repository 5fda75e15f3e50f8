import type { Family } from '../family.ts';
import type { HookName } from '../packet/flow.ts';
import type { RuleHit } from '../packet/packet.ts';
import { targetOf } from '../rules/words.ts';
import type { RuleContext } from './iptables-options.ts';
import { readIptablesRule } from './iptables-rule.ts';
import type { BaseChain, LiveChain, LiveRule, LiveSet, LiveTable } from './rule.ts';

/** Priorities of the tables, at the hooks that they have (`netfilter_ipv4.h`). In nat those of destinations come before routing, those of sources last. */
const priorities: Readonly<Record<string, number>> = { raw: -300, mangle: -150, filter: 0, security: 50 };
const natPriorities: Readonly<Record<string, number>> = {
  PREROUTING: -100,
  OUTPUT: -100,
  INPUT: 100,
  POSTROUTING: 100,
};
const hooks: ReadonlySet<string> = new Set<HookName>(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** One rule store of one family. */
interface SavedStore {
  readonly store: 'nft' | 'legacy';
  readonly family: Family;
  /** What `iptables-save` prints, without comments and counters. */
  readonly lines: readonly string[];
}

/** The chains of kube-proxy and of Sluice in either layout. */
const proxys = /^(?:KUBE-|SLU-|SLUICE-)/;
/** Of the kubelet and of CNI plugins, under kube-proxy's prefix. */
const notProxys = /^KUBE-(?:FIREWALL$|KUBELET-CANARY$|IPTABLES-HINT$|POD-FW-|ROUTER-|NWPLCY-)/;

/** Whether a chain is kube-proxy's or Sluice's by its name. */
export const isProxysChain = (name: string): boolean => proxys.test(name) && !notProxys.test(name);

/** Reads what `iptables-save` printed into tables. A rule is read when a packet first meets its chain. */
export function readIptables(
  { store, family, lines }: SavedStore,
  saved: ReadonlyMap<string, LiveSet>,
): readonly LiveTable[] {
  const sets = withFilled(saved, lines);
  const tables: LiveTable[] = [];
  let name = '';
  let policies = new Map<string, string>();
  let rules = new Map<string, string[]>();
  for (const line of lines) {
    if (line.startsWith('*')) {
      name = line.slice(1);
      policies = new Map();
      rules = new Map();
    } else if (line.startsWith(':')) {
      const [, chain = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
      policies.set(chain, policy);
      rules.set(chain, []);
    } else if (line === 'COMMIT') tables.push(iptablesTable({ store, family, name, policies, rules, sets }));
    else {
      const end = line.indexOf(' ', 3);
      rules.get(line.slice(3, end < 0 ? undefined : end))?.push(line);
    }
  }
  return tables;
}

/** Sets that rules fill are not known: a packet may add its own source before another rule asks for it. */
function withFilled(sets: ReadonlyMap<string, LiveSet>, lines: readonly string[]): ReadonlyMap<string, LiveSet> {
  const names = new Set(lines.flatMap((line) => / -j SET --(?:add|del|map)-set (\S+)/.exec(line)?.[1] ?? []));
  if (names.size === 0) return sets;
  return new Map([...sets].map(([name, set]) => [name, names.has(name) ? { ...set, unread: 'packets fill it' } : set]));
}

/** One table of a rule store. */
interface StoredTable {
  readonly store: 'nft' | 'legacy';
  readonly family: Family;
  readonly name: string;
  readonly policies: ReadonlyMap<string, string>;
  readonly rules: ReadonlyMap<string, readonly string[]>;
  readonly sets: ReadonlyMap<string, LiveSet>;
  /** Whether a target is a chain; left out: those with rules are. */
  readonly hasChain?: (name: string) => boolean;
}

/** A table of iptables. A rule is read when a packet first meets its chain. */
export function iptablesTable(table: StoredTable): LiveTable {
  const { store, family, name, policies, rules, sets, hasChain = (chain) => rules.has(chain) } = table;
  const title = `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store} -t ${name}`;
  const context: RuleContext = { family, sets, hasChain };
  const chains = new Map([...rules].map(([chain, lines]) => [chain, chainOf(chain, lines, name, context)]));
  const bases = [...policies].flatMap(([chain, policy]): readonly BaseChain[] => {
    const priority = name === 'nat' ? natPriorities[chain] : priorities[name];
    if (policy === '-' || !hooks.has(chain) || priority === undefined) return [];
    const type = name === 'nat' ? 'nat' : 'filter';
    return [{ hook: chain as HookName, priority, type, chain, policy: policy === 'DROP' ? 'drop' : 'accept' }];
  });
  const policyHit = ({ chain }: BaseChain): RuleHit => ({
    table: name as RuleHit['table'],
    chain,
    rule: `-P ${chain} DROP`,
    owner: 'foreign',
  });
  return { title, chains, bases, policyHit };
}

function chainOf(name: string, lines: readonly string[], table: string, context: RuleContext): LiveChain {
  const isOwn = isProxysChain(name);
  let read: readonly LiveRule[] | undefined;
  return {
    name,
    rules: () =>
      (read ??= lines.map((text) => {
        const isProxys = isOwn || isProxysChain(targetOf(text) ?? '');
        const owner = isProxys ? 'proxy' : 'foreign';
        return readIptablesRule(
          text,
          context,
          { table: table as RuleHit['table'], chain: name, rule: text, owner },
          isProxys,
        );
      })),
  };
}

import { readSave } from '../../packages/applier/src/kernel/save.fixture.ts';
import type { NodeRecord } from '../../packages/applier/src/state/record.ts';
import { NftListing } from '../netns/nft-listing.ts';

/** The state of a node at one moment. */
export interface NodeSnapshot {
  /** What the save tools print of IPv4 and IPv6. */
  readonly saves: readonly [string, string];
  /** What `ipset save` prints. */
  readonly sets: string;
  /** Whether conntrack counts bytes: a sysctl that some programs set. */
  readonly accounting: string;
  /** The table of mode nftables as `nft` lists it; `''`: there is none. */
  readonly table: string;
  /** All other tables of nf_tables that are not of iptables. */
  readonly foreignTables: string;
  /** The record of the journal; undefined before the first. */
  readonly journal: NodeRecord | undefined;
  /** The files below the state directory, one per line. */
  readonly files: string;
}

type ChainRules = ReadonlyMap<string, readonly string[]>;
type OwnTables = { readonly filter: ChainRules; readonly nat: ChainRules };

const isOurs = (chain: string): boolean => /^(SLU|KUBE)-|^SLUICE-/.test(chain);
const jumpsToUs = (rule: string): boolean => / -[jg] (SLU|KUBE)/.test(rule);

/** Foreign chains and rules, and those of Sluice, of one family. */
function parts(save: string): { readonly ours: OwnTables; readonly foreign: string } {
  const family = readSave(save);
  const ours = { filter: new Map<string, readonly string[]>(), nat: new Map<string, readonly string[]>() };
  const foreign: string[] = [];
  for (const table of ['filter', 'nat'] as const) {
    for (const [name, { rules }] of family[table].chains) {
      const own = isOurs(name) ? rules : rules.filter(jumpsToUs);
      if (own.length > 0 || isOurs(name)) ours[table].set(name, own);
      if (!isOurs(name)) foreign.push(`${table} ${name}`, ...rules.filter((rule) => !jumpsToUs(rule)));
    }
  }
  return { ours, foreign: foreign.filter((line) => line.startsWith('-A') || !/ [A-Z]+$/.test(line)).join('\n') };
}

const print = (chains: ChainRules): string =>
  [...chains]
    .map(([name, rules]) => [`:${name}`, ...rules].join('\n'))
    .toSorted()
    .join('\n');

/** All rules and elements of Sluice on a node, as one text. */
export function ownText({ saves, table }: NodeSnapshot): string {
  const tables = saves
    .map((save) => parts(save).ours)
    .map(({ filter, nat }) => `${print(filter)}\n\n${print(nat)}`)
    .join('\n\n');
  return [tables, metInTable(table), ...new NftListing(table).contents.toSorted()].join('\n');
}

/** All foreign rules. */
export function foreignText({ saves, foreignTables }: NodeSnapshot): string {
  return [...saves.map((save) => parts(save).foreign), foreignTables].join('\n\n');
}

/** What packets meet in the table of mode nftables, with its switch as it is. */
function metInTable(table: string): string {
  const listing = new NftListing(table);
  const families = (['4', '6'] as const).flatMap((n) => listing.frontends(n, listing.isOnTrial(n)));
  return [...families, listing.chains].join('\n');
}

const switchRule = / --match-set (\S+) src /;

/** Whether a set has entries: then packets take the branch of the rule that matches it. */
function hasEntries(sets: string, name: string): boolean {
  return sets.split('\n').some((line) => line.startsWith(`add ${name} `));
}

/** The chains where packets for Services come in. Other rules in the built-in chains do not affect unmarked packets. */
const entry = /^(SLUICE|KUBE)-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL)$/;

/**
 * The chains that packets for Services can reach in one table, with the rules that check the switch removed or followed.
 * @param isOn whether the rule that matches a set is followed; packets do not reach the rules after it then
 */
function reachable(chains: ChainRules, isOn: (set: string) => boolean, branch: ProgramChoice = 'last'): string {
  const found = new Map<string, readonly string[]>();
  const follow = (name: string): void => {
    const rules = chains.get(name) ?? [];
    if (found.has(name) || rules.length === 0) return;
    const effective = oneBranch(name, chosen(name, rules, isOn), branch);
    if (effective.length > 0) found.set(name, effective);
    for (const target of effective.flatMap(targetOf)) follow(target);
  };
  for (const target of [...chains].filter(([name]) => !isOurs(name)).flatMap(([, rules]) => rules.flatMap(targetOf)))
    if (entry.test(target)) follow(target);
  return print(found);
}

/** Which of two programs is followed where a chain leads to both one after the other, as filter does while nat changes over. */
type ProgramChoice = 'first' | 'last';

function oneBranch(name: string, rules: readonly string[], branch: ProgramChoice): readonly string[] {
  const [first = '', last = ''] = rules;
  const isBoth = rules.length === 2 && / -j SLUICE-R-/.test(first) && / -g SLUICE-R-/.test(last);
  if (!isBoth) return rules;
  return branch === 'last' ? [last] : [`-A ${name} -g ${targetOf(first)[0]}`];
}

const targetOf = (rule: string): readonly string[] => {
  const target = / -[jg] (\S+)/.exec(rule)?.[1];
  return target === undefined ? [] : [target];
};

/** The rules of a chain without the one that checks the switch; where the switch is on, its root replaces the last rule. */
function chosen(name: string, rules: readonly string[], isOn: (set: string) => boolean): readonly string[] {
  const checking = rules.find((rule) => switchRule.test(rule));
  const others = rules.filter((rule) => rule !== checking);
  // No packet comes past the old default: the new one waits behind it.
  const isDefault = (rule: string): boolean => /^-A \S+ -g SLUICE-R-\S+$/.test(rule);
  const plain = others.filter((rule, at) => !isDefault(rule) || at === others.findIndex(isDefault));
  const [set, root] = [switchRule.exec(checking ?? '')?.[1], targetOf(checking ?? '')[0]];
  const isFollowed = set !== undefined && root !== undefined && isOn(set);
  return isFollowed ? [...plain.slice(0, -1), `-A ${name} -g ${root}`] : plain;
}

/** The settled programs that packets meet, for each table and family. */
export function selected(
  snapshot: NodeSnapshot,
  settled: ReadonlyMap<string, NodeSnapshot>,
): readonly (readonly string[])[] {
  return snapshot.saves.flatMap((save, family) =>
    (['nat', 'filter'] as const).map((table) => {
      const chains = parts(save).ours[table];
      const now = [reachable(chains, (set) => hasEntries(snapshot.sets, set))];
      // While the switch of filter is on, packets pass the rules of both programs there.
      if (table === 'filter')
        now.push(
          reachable(chains, () => false),
          reachable(chains, () => false, 'first'),
        );
      return [...settled].flatMap(([name, { saves }]) =>
        now.includes(reachable(parts(saves[family] as string).ours[table], () => false)) ? [name] : [],
      );
    }),
  );
}

/** The invariants of a run, however it ended. */
export interface Invariants {
  /** The programs that packets may meet, by name. */
  readonly settled: ReadonlyMap<string, NodeSnapshot>;
  /** Those of them that the node may end on. */
  readonly finalStates: readonly string[];
  /**
   * The scope that must run one program at every moment: the node, or each family where an endpoint update changes the tables one after
   * the other, or each table where an operator rolls them back. A change of the mode has both data planes for a moment: then one of them
   * must be whole.
   */
  readonly atomicScope: 'node' | 'family' | 'table' | 'mode';
  /** The journal before the run. */
  readonly before: NodeSnapshot;
}

/** Violations right after the fault, with no process alive: I1, I2 and I4 of the invariants. */
export function wrongAfterFault(snapshot: NodeSnapshot, { settled, atomicScope }: Invariants): readonly string[] {
  const wrong = [
    ...wrongForeign(snapshot, settled),
    ...unknownRules(snapshot, settled),
    ...unknownElements(snapshot, settled),
  ];
  const choices = selected(snapshot, settled);
  if (atomicScope === 'mode') {
    const isWhole = [...settled].some(([name, { table }]) =>
      table === '' ? choices.every((names) => names.includes(name)) : metInTable(table) === metInTable(snapshot.table),
    );
    return isWhole ? wrong : [`I1: packets meet neither data plane as a whole: ${JSON.stringify(choices)}`, ...wrong];
  }
  const [nat4 = [], filter4 = [], nat6 = [], filter6 = []] = choices;
  const both = nat4.filter((name) => nat6.includes(name));
  const [meant4, meant6] = atomicScope === 'node' ? [both, both] : [nat4, nat6];
  if (meant4.length === 0 || meant6.length === 0)
    wrong.push(`I1: packets meet neither program as a whole: ${JSON.stringify(choices)}`);
  const isMixed = !filter4.some((name) => meant4.includes(name)) || !filter6.some((name) => meant6.includes(name));
  if (isMixed && atomicScope !== 'table') wrong.push(`I1: filter is of another program: ${JSON.stringify(choices)}`);
  // One transaction changes the whole table, so it holds one program, whatever the scope of other tables is.
  const met = metInTable(snapshot.table);
  if (![...settled.values()].some(({ table }) => metInTable(table) === met))
    wrong.push(`I1: packets meet neither table as a whole: ${met}`);
  return wrong;
}

function wrongForeign(snapshot: NodeSnapshot, settled: ReadonlyMap<string, NodeSnapshot>): readonly string[] {
  const [any] = settled.values();
  if (!any || foreignText(any) === foreignText(snapshot)) return [];
  return [`I2: foreign rules changed: found\n${foreignText(snapshot)}\n  expected\n${foreignText(any)}`];
}

/** Rules in our chains that belong to neither program, nor check the switch for one of their roots. */
function unknownRules(snapshot: NodeSnapshot, settled: ReadonlyMap<string, NodeSnapshot>): readonly string[] {
  const linesOf = (text: string): readonly string[] => text.split('\n').filter((line) => line.startsWith('-A'));
  const known = new Set([...settled.values()].flatMap((one) => linesOf(ownText(one))));
  const plain = (rule: string): string =>
    rule.replace(/ -m set --match-set \S+ src -[jg] /, ' -g ').replace(/ -j (?=SLUICE-R-)/, ' -g ');
  const unknown = linesOf(ownText(snapshot)).filter((rule) => !known.has(plain(rule)) && !known.has(rule));
  return unknown.map((rule) => `I4: a rule of neither program: ${rule}`);
}

/** Elements of the table of mode nftables that belong to neither program, with its overlay. */
function unknownElements({ table }: NodeSnapshot, settled: ReadonlyMap<string, NodeSnapshot>): readonly string[] {
  const known = new Set([...settled.values()].flatMap((one) => new NftListing(one.table).contents));
  // The overlay of a frontend that the release removes.
  const isRemoval = (element: string): boolean => /^svc[46] .* : accept$/.test(element);
  const unknown = new NftListing(table).contents.filter((one) => !known.has(one) && !isRemoval(one));
  return unknown.map((one) => `I4: an element of neither program: ${one}`);
}

/** Violations once the next process has ended: all invariants. */
export function wrongAfterRecovery(snapshot: NodeSnapshot, expected: Invariants): readonly string[] {
  const { finalStates, before } = expected;
  const settled = new Map([...expected.settled].filter(([name]) => finalStates.includes(name)));
  const wrong = [...wrongForeign(snapshot, settled)];
  const { journal } = snapshot;
  const text = ownText(snapshot);
  const named = [...settled].filter(([, one]) => ownText(one) === text).map(([name]) => name);
  if (named.length === 0) wrong.push('I1: the kernel holds neither program alone');
  else if (!named.some((name) => settled.get(name)?.accounting === snapshot.accounting))
    wrong.push(`I1: the kernel holds ${named.join(' or ')}, and nf_conntrack_acct is ${snapshot.accounting}`);
  const meant = [...settled].filter(([, one]) => versionOf(one) === versionOf(snapshot));
  if (!meant.some(([name]) => named.includes(name)))
    wrong.push(`I1: the kernel holds ${named.join(' or ')}, the journal says ${meant.map(([name]) => name).join()}`);
  if (journal && journal.next < (before.journal?.next ?? 0)) wrong.push('I3: the number of generations went down');
  if (journal?.open) wrong.push('I6: the transaction is still open');
  if (snapshot.sets !== '') wrong.push(`I6: leftover sets: ${snapshot.sets.split('\n')[0]}`);
  const overlay = switchSets.filter((name) => new NftListing(snapshot.table).elements(name).size > 0);
  if (overlay.length > 0) wrong.push(`I6: leftover elements: ${overlay.join()}`);
  if (/\.(tmp|old)\b/.test(snapshot.files)) wrong.push(`I6: leftover files: ${snapshot.files}`);
  return wrong;
}

/** The sets of the switch of mode nftables, which are empty while no release is on probation. */
const switchSets = ['trial4', 'trial6', 'tkey4', 'tkey6'];

/** The state before Sluice has no version of its own. */
const versionOf = ({ journal }: NodeSnapshot): string => journal?.current?.version ?? 'before';

import { readSave } from '../../packages/applier/src/kernel/save.ts';
import type { NodeRecord } from '../../packages/applier/src/journal/record.ts';

/** What a node shows at one moment. */
export interface Seen {
  /** What the save tools print of IPv4 and IPv6. */
  readonly saves: readonly [string, string];
  /** What `ipset save` prints. */
  readonly sets: string;
  /** The record of the journal; undefined before the first. */
  readonly journal: NodeRecord | undefined;
  /** The files below the state directory, one per line. */
  readonly files: string;
}

type Chains = ReadonlyMap<string, readonly string[]>;
type Tables = { readonly filter: Chains; readonly nat: Chains };

const isOurs = (chain: string): boolean => /^(SLU|KUBE)-|^SLUICE-/.test(chain);
const jumpsToUs = (rule: string): boolean => / -[jg] (SLU|KUBE)/.test(rule);

/** Chains and rules of others, and the ones of Sluice, of one family. */
function parts(save: string): { readonly ours: Tables; readonly others: string } {
  const family = readSave(save);
  const ours = { filter: new Map<string, readonly string[]>(), nat: new Map<string, readonly string[]>() };
  const others: string[] = [];
  for (const table of ['filter', 'nat'] as const) {
    for (const [name, { rules }] of family[table].chains) {
      const own = isOurs(name) ? rules : rules.filter(jumpsToUs);
      if (own.length > 0 || isOurs(name)) ours[table].set(name, own);
      if (!isOurs(name)) others.push(`${table} ${name}`, ...rules.filter((rule) => !jumpsToUs(rule)));
    }
  }
  return { ours, others: others.filter((line) => line.startsWith('-A') || !/ [A-Z]+$/.test(line)).join('\n') };
}

const print = (chains: Chains): string =>
  [...chains]
    .map(([name, rules]) => [`:${name}`, ...rules].join('\n'))
    .toSorted()
    .join('\n');

/** Everything of Sluice's that a node holds, in one text. */
export function ownText({ saves }: Seen): string {
  return saves
    .map((save) => parts(save).ours)
    .map(({ filter, nat }) => `${print(filter)}\n\n${print(nat)}`)
    .join('\n\n');
}

/** Everything of others. */
export function othersText({ saves }: Seen): string {
  return saves.map((save) => parts(save).others).join('\n\n');
}

const trialRule = / --match-set (\S+) src /;

/** Whether a set has entries: then packets go the way that the rule which asks it says. */
function isLit(sets: string, name: string): boolean {
  return sets.split('\n').some((line) => line.startsWith(`add ${name} `));
}

/** Where packets for Services come in. What else hangs in the built-in chains does nothing to a packet that no Service marked. */
const entry = /^(SLUICE|KUBE)-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL)$/;

/**
 * The chains that packets for Services can meet in one table, with the rules that ask the switch taken out or followed.
 * @param lit whether the rule that asks a set is followed; what stands behind it is met by nobody then
 */
function met(chains: Chains, lit: (set: string) => boolean, turn: Turn = 'last'): string {
  const found = new Map<string, readonly string[]>();
  const follow = (name: string): void => {
    const rules = chains.get(name) ?? [];
    if (found.has(name) || rules.length === 0) return;
    const effective = inTurn(name, chosen(name, rules, lit), turn);
    if (effective.length > 0) found.set(name, effective);
    for (const target of effective.flatMap(targetOf)) follow(target);
  };
  for (const target of [...chains].filter(([name]) => !isOurs(name)).flatMap(([, rules]) => rules.flatMap(targetOf)))
    if (entry.test(target)) follow(target);
  return print(found);
}

/** Which of two programs is followed where a chain leads to both in turn, as filter does while nat changes from one to the other. */
type Turn = 'first' | 'last';

function inTurn(name: string, rules: readonly string[], turn: Turn): readonly string[] {
  const [first = '', last = ''] = rules;
  const isBoth = rules.length === 2 && / -j SLUICE-R-/.test(first) && / -g SLUICE-R-/.test(last);
  if (!isBoth) return rules;
  return turn === 'last' ? [last] : [`-A ${name} -g ${targetOf(first)[0]}`];
}

const targetOf = (rule: string): readonly string[] => {
  const target = / -[jg] (\S+)/.exec(rule)?.[1];
  return target === undefined ? [] : [target];
};

/** The rules of a chain without the one that asks the switch; with its root as the last one instead where the switch is on. */
function chosen(name: string, rules: readonly string[], lit: (set: string) => boolean): readonly string[] {
  const asking = rules.find((rule) => trialRule.test(rule));
  const plain = rules.filter((rule) => rule !== asking);
  const [set, root] = [trialRule.exec(asking ?? '')?.[1], targetOf(asking ?? '')[0]];
  const isOn = set !== undefined && root !== undefined && lit(set);
  return isOn ? [...plain.slice(0, -1), `-A ${name} -g ${root}`] : plain;
}

/** Which of the settled programs packets meet, of each table and family. */
export function selected(seen: Seen, settled: ReadonlyMap<string, Seen>): readonly (readonly string[])[] {
  return seen.saves.flatMap((save, family) =>
    (['nat', 'filter'] as const).map((table) => {
      const chains = parts(save).ours[table];
      const now = [met(chains, (set) => isLit(seen.sets, set))];
      // While the switch of filter is on, packets meet the rules of both programs there.
      if (table === 'filter')
        now.push(
          met(chains, () => false),
          met(chains, () => false, 'first'),
        );
      return [...settled].flatMap(([name, { saves }]) =>
        now.includes(met(parts(saves[family] as string).ours[table], () => false)) ? [name] : [],
      );
    }),
  );
}

/** What must hold however the run ended. */
export interface Expected {
  /** The programs that packets may meet, by name. */
  readonly settled: ReadonlyMap<string, Seen>;
  /** Those of them that the node may end on. */
  readonly ends: readonly string[];
  /**
   * What must be of one program at every moment: the node, or each family where an update of endpoints goes into the tables one after
   * the other, or each table where a person takes them back.
   */
  readonly whole: 'node' | 'family' | 'table';
  /** The journal before the run. */
  readonly before: Seen;
}

/** What is wrong right after the fault, with no process alive: I1, I2 and I4 of the invariants. */
export function wrongAfterFault(seen: Seen, { settled, whole }: Expected): readonly string[] {
  const wrong: string[] = [];
  const choices = selected(seen, settled);
  const [nat4 = [], filter4 = [], nat6 = [], filter6 = []] = choices;
  const both = nat4.filter((name) => nat6.includes(name));
  const [meant4, meant6] = whole === 'node' ? [both, both] : [nat4, nat6];
  if (meant4.length === 0 || meant6.length === 0)
    wrong.push(`I1: packets meet neither program as a whole: ${JSON.stringify(choices)}`);
  const isApart = !filter4.some((name) => meant4.includes(name)) || !filter6.some((name) => meant6.includes(name));
  if (isApart && whole !== 'table') wrong.push(`I1: filter is of another program: ${JSON.stringify(choices)}`);
  wrong.push(...wrongOthers(seen, settled), ...unknownRules(seen, settled));
  return wrong;
}

function wrongOthers(seen: Seen, settled: ReadonlyMap<string, Seen>): readonly string[] {
  const [any] = settled.values();
  if (!any || othersText(any) === othersText(seen)) return [];
  return [`I2: rules of others changed: there are\n${othersText(seen)}\n  and not\n${othersText(any)}`];
}

/** Every rule in our chains is one of the two programs', or asks the switch for one of their roots. */
function unknownRules(seen: Seen, settled: ReadonlyMap<string, Seen>): readonly string[] {
  const linesOf = (text: string): readonly string[] => text.split('\n').filter((line) => line.startsWith('-A'));
  const known = new Set([...settled.values()].flatMap((one) => linesOf(ownText(one))));
  const plain = (rule: string): string =>
    rule.replace(/ -m set --match-set \S+ src -[jg] /, ' -g ').replace(/ -j (?=SLUICE-R-)/, ' -g ');
  const unknown = linesOf(ownText(seen)).filter((rule) => !known.has(plain(rule)) && !known.has(rule));
  return unknown.map((rule) => `I4: a rule of neither program: ${rule}`);
}

/** What is wrong once the next process has ended: all of them. */
export function wrongAfterRecovery(seen: Seen, expected: Expected): readonly string[] {
  const { ends, before } = expected;
  const settled = new Map([...expected.settled].filter(([name]) => ends.includes(name)));
  const wrong = [...wrongOthers(seen, settled)];
  const { journal } = seen;
  const text = ownText(seen);
  const named = [...settled].filter(([, one]) => ownText(one) === text).map(([name]) => name);
  if (named.length === 0) wrong.push('I1: the kernel holds neither program alone');
  const meant = [...settled].filter(([, one]) => versionOf(one) === versionOf(seen));
  if (!meant.some(([name]) => named.includes(name)))
    wrong.push(`I1: the kernel holds ${named.join(' or ')}, the journal says ${meant.map(([name]) => name).join()}`);
  if (journal && journal.next < (before.journal?.next ?? 0)) wrong.push('I3: the number of generations went down');
  if (journal?.open) wrong.push('I6: the transaction is still open');
  if (seen.sets !== '') wrong.push(`I6: sets are left: ${seen.sets.split('\n')[0]}`);
  if (/\.tmp/.test(seen.files)) wrong.push(`I6: files are left: ${seen.files}`);
  return wrong;
}

/** What stood before Sluice has no version of its own. */
const versionOf = ({ journal }: Seen): string => journal?.current?.version ?? 'before';

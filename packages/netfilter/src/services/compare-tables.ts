import { families, type Family } from '../family.ts';
import { serviceKeyOf } from '../link/of-service.ts';
import { emptyProgram, type FamilyProgram, tableNames, type TableProgram } from '../link/program.ts';
import { replaceChains } from '../link/tree/replace.ts';
import { choosesEndpoint, isOfEndpoint, withoutTag } from './chain-names.ts';
import { frontendChanges } from './frontend-changes.ts';
import { readService, type ServiceOfChain } from './of-chain.ts';
import { ServicesOfTables } from './of-tables.ts';
import {
  changedNames,
  leftOver,
  plainText,
  type RemovedAndAdded,
  sameJumps,
  sameLines,
  sameTable,
} from './plain-rules.ts';
import type { Comparison, ForwardingState, FrontendChange, ServiceChange } from './services.ts';

/** The chains of a Service before and after. */
class ChangedChain implements ServiceChange {
  readonly key: string;
  readonly #of: FamilyComparison;
  readonly chains: { readonly before?: string | undefined; readonly after?: string | undefined };
  #read: Readonly<Record<'before' | 'after', ServiceOfChain | undefined>> | undefined;

  constructor(of: FamilyComparison, chains: ChangedChain['chains']) {
    this.#of = of;
    this.chains = chains;
    this.key = `${of.family} ${withoutTag(chains.after ?? chains.before ?? '')}`;
  }

  get #services(): Readonly<Record<'before' | 'after', ServiceOfChain | undefined>> {
    const { family, from, to } = this.#of;
    const read = (chain: string | undefined, table: TableProgram): ServiceOfChain | undefined =>
      chain === undefined ? undefined : readService(family, chain, table);
    this.#read ??= { before: read(this.chains.before, from.nat), after: read(this.chains.after, to.nat) };
    return this.#read;
  }

  get before(): ServiceOfChain | undefined {
    return this.#services.before;
  }

  get after(): ServiceOfChain | undefined {
    return this.#services.after;
  }

  /** The key on a rule that leads to the chain. */
  get name(): string {
    const { before = '', after = '' } = this.chains;
    return (
      this.#of.names.after.get(after) ?? this.#of.names.before.get(before) ?? withoutTag(after === '' ? before : after)
    );
  }

  get fileMark(): string {
    return this.key.slice(this.key.lastIndexOf('-') + 1);
  }

  get fits(): boolean {
    const { before, after } = this;
    if (!before || !after || !sameLines(before.frame, after.frame) || !sameChoices(before, after)) return false;
    // A chain that another Service leads to must not change with this one.
    return after.chains.every((name) => !this.#of.changedEndpoints.has(name) || before.chains.includes(name));
  }
}

/** Whether the rules that choose are the same: of a kept endpoint exactly, of a new one like those of some other. */
function sameChoices(before: ServiceOfChain, after: ServiceOfChain): boolean {
  if (before.choice !== after.choice || !sameOrder(before, after)) return false;
  const forms = new Set([...before.endpoints.values()].map(({ form }) => form));
  return [...after.endpoints].every(([to, { form, chain }]) => {
    const own = before.endpoints.get(to);
    return own ? own.form === form && own.chain === chain : forms.has(form);
  });
}

/** Whether kept endpoints are in the same order: a client that two of them remember goes to the first. */
function sameOrder(before: ServiceOfChain, after: ServiceOfChain): boolean {
  const kept = (some: ServiceOfChain, others: ServiceOfChain): string =>
    some.affinityOrder.filter((one) => others.endpoints.has(one)).join();
  return kept(before, after) === kept(after, before);
}

/** The tables of one family, compared. */
class FamilyComparison {
  readonly family: Family;
  readonly from: FamilyProgram;
  readonly to: FamilyProgram;
  readonly changed: readonly ChangedChain[];
  readonly added: readonly ChangedChain[];
  readonly removed: readonly ChangedChain[];
  readonly #nat: RemovedAndAdded<string>;
  #changedEndpoints: ReadonlySet<string> | undefined;
  #names: FamilyComparison['names'] | undefined;

  constructor(family: Family, from = emptyProgram, to = emptyProgram) {
    this.family = family;
    this.from = from;
    this.to = to;
    this.#nat = changedNames(from.nat, to.nat);
    const before = byPlainName(this.#nat.removed);
    const after = byPlainName(this.#nat.added);
    this.changed = [...before].flatMap(([name, chain]) =>
      after.has(name) ? [new ChangedChain(this, { before: chain, after: after.get(name) })] : [],
    );
    this.added = [...after]
      .filter(([name]) => !before.has(name))
      .map(([, chain]) => new ChangedChain(this, { after: chain }));
    this.removed = [...before]
      .filter(([name]) => !after.has(name))
      .map(([, chain]) => new ChangedChain(this, { before: chain }));
  }

  /**
   * The chains of endpoints that both tables have, with different rules. In layout `flat` the name of such a chain does not identify
   * its content, and the rules of its Service do not change with it: a comparison of Services alone would miss it.
   */
  get changedEndpoints(): ReadonlySet<string> {
    const inBoth = (name: string): boolean => this.from.nat.chains.has(name) && this.to.nat.chains.has(name);
    this.#changedEndpoints ??= new Set(this.#nat.added.filter((name) => isOfEndpoint(name) && inBoth(name)));
    return this.#changedEndpoints;
  }

  /** Whether changed Services lead to all changed chains of endpoints. */
  get #isCovered(): boolean {
    if (this.changedEndpoints.size === 0) return true;
    const covered = new Set(this.changed.flatMap(({ after }) => after?.chains ?? []));
    return [...this.changedEndpoints].every((name) => covered.has(name));
  }

  /**
   * Whether both lead to the same Services by the same rules, in the same order. The order matters: in POSTROUTING it decides which
   * packets are masqueraded. Dispatch trees with the same rules have the same shape, and their chains the same order.
   */
  get isNatSame(): boolean {
    const { removed, added } = this.#nat;
    if (!sameJumps(this.from.nat, this.to.nat) || !this.#isCovered) return false;
    if (this.changed.length === 0) return removed.length + added.length === 0;
    const met = this.#met;
    const rest = (table: TableProgram, names: readonly string[]): string =>
      plainText(
        table,
        names.filter((name) => !met.has(name) && !isOfEndpoint(name)),
      );
    return rest(this.from.nat, removed) === rest(this.to.nat, added);
  }

  /** The names of changed Services by their chains, for people. */
  get names(): Readonly<Record<'before' | 'after', ReadonlyMap<string, string>>> {
    this.#names ??= {
      before: namesIn(this.from.nat, new Set(this.#nat.removed)),
      after: namesIn(this.to.nat, new Set(this.#nat.added)),
    };
    return this.#names;
  }

  get isRestSame(): boolean {
    return sameTable(this.from.filter, this.to.filter) && this.isNatSame;
  }

  get #met(): ReadonlySet<string> {
    return new Set(this.changed.flatMap(({ chains }) => [chains.before ?? '', chains.after ?? '']));
  }

  get frontends(): readonly FrontendChange[] | undefined {
    const { family, from, to } = this;
    if (tableNames.some((name) => !sameJumps(from[name], to[name])) || !this.#isCovered) return undefined;
    const nat = leftOver(from.nat, to.nat, this.#nat, this.#met);
    const filter = nat && leftOver(from.filter, to.filter, changedNames(from.filter, to.filter), new Set());
    return filter && frontendChanges(family, [from.nat, to.nat], nat, filter);
  }

  withEndpoints(some: ReadonlySet<ServiceChange>): FamilyProgram {
    const { from, to } = this;
    const taken = this.changed.filter((one) => some.has(one));
    if (taken.length === 0) return from;
    if (taken.length === this.changed.length && this.isNatSame) return { filter: from.filter, nat: to.nat };
    const names = taken.flatMap((one) => [...(one.after?.chains ?? []), one.chains.after ?? '']);
    const chains = new Map(names.map((name) => [name, to.nat.chains.get(name) ?? []] as const));
    const renamed = new Map(taken.map((one) => [one.chains.before ?? '', one.chains.after ?? ''] as const));
    if ([...renamed.keys()].some((name) => name === withoutTag(name)))
      return { filter: from.filter, nat: replaced(from.nat, chains) };
    const isTaken = (name: string, rules: readonly string[]): boolean => {
      const theirs = to.nat.chains.get(name);
      return theirs !== undefined && !sameLines(theirs, rules);
    };
    return { filter: from.filter, nat: replaceChains(from.nat, { renamed, chains }, isTaken) };
  }
}

/** The names on rules that lead to some chains. */
function namesIn({ chains }: TableProgram, some: ReadonlySet<string>): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const rules of chains.values())
    for (const rule of rules) {
      const chain = rule.slice(rule.lastIndexOf(' ') + 1);
      const name = some.has(chain) && !names.has(chain) ? serviceKeyOf(rule) : undefined;
      if (name !== undefined) names.set(chain, name);
    }
  return names;
}

const byPlainName = (names: readonly string[]): ReadonlyMap<string, string> =>
  new Map(names.filter(choosesEndpoint).map((name) => [withoutTag(name), name]));

/** A table in layout `flat` with some chains replaced by name, without the endpoints that no rule leads to any more. */
function replaced({ chains: before, jumps }: TableProgram, replacements: TableProgram['chains']): TableProgram {
  const chains = new Map([...before, ...replacements]);
  const needed = new Set<string>();
  for (const rules of chains.values()) for (const rule of rules) needed.add(rule.slice(rule.lastIndexOf(' ') + 1));
  return { chains: new Map([...chains].filter(([name]) => !isOfEndpoint(name) || needed.has(name))), jumps };
}

/** Two states in layout `flat`, or two in layout `tree`. */
export class ComparisonOfTables<S extends ForwardingState> implements Comparison<S> {
  readonly #base: S;
  readonly #families: readonly FamilyComparison[];
  readonly from: ServicesOfTables;

  constructor(from: S, to: S) {
    this.#base = from;
    this.from = new ServicesOfTables(from);
    this.#families = families
      .filter((family) => from.families[family] ?? to.families[family])
      .map((family) => new FamilyComparison(family, from.families[family], to.families[family]));
  }

  get changed(): readonly ServiceChange[] {
    return this.#families.flatMap(({ changed }) => changed);
  }

  get added(): readonly ServiceChange[] {
    return this.#families.flatMap(({ added }) => added);
  }

  get removed(): readonly ServiceChange[] {
    return this.#families.flatMap(({ removed }) => removed);
  }

  get isRestSame(): boolean {
    return this.#families.every(({ isRestSame }) => isRestSame);
  }

  get frontends(): readonly FrontendChange[] | undefined {
    const all = this.#families.map(({ frontends }) => frontends);
    return all.every((some) => some !== undefined) ? all.flat() : undefined;
  }

  withEndpoints(some: readonly ServiceChange[]): S {
    if (some.length === 0) return this.#base;
    const taken = new Set(some);
    // A family that only the other state has comes with a release.
    const own = this.#families.filter(({ family }) => this.#base.families[family]);
    const programs = own.map((one) => [one.family, one.withEndpoints(taken)] as const);
    return { ...this.#base, families: { ...this.#base.families, ...Object.fromEntries(programs) } };
  }
}

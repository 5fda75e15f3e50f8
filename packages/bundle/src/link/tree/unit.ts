import { FileProblems, type Problem } from '../../problem.ts';
import { fillHost, type HostValues, type ResolvedSection } from '../../resolve.ts';
import type { Family, TableName } from '../../rulefile.ts';
import { printRule } from '../../rules/print.ts';
import { readRule } from '../../rules/read.ts';
import { certain, isRuleError, type Match, type Rule } from '../../rules/rule.ts';
import { dispatchChains, isServiceChain } from '../chains.ts';
import { refusal, refuseChain, tablesOf, withoutComment } from '../check.ts';
import { calleesFirst } from '../circle.ts';
import { tableNames } from '../program.ts';
import { type Body, groupEndpoints, type WayTo } from './groups.ts';
import { endpointsInPlace } from './in-place.ts';
import { type Place, placeOf } from './keys.ts';
import { baseChainNames, baseChainName } from './base-chains.ts';
import { NamesExhausted, ChainNamer } from './names.ts';
import type { TreeChain } from './program.ts';

/** A rule that stands in a base chain. */
export interface BaseRule {
  readonly chain: string;
  readonly body: Body;
  readonly place: Place;
  /** The base chain that it leads to; `body` ends where its name has to stand. */
  readonly calls?: string;
  /** Its target decides about the packet for good. */
  readonly ends: boolean;
}

/** One table of one rule file, linked by itself. */
export interface Unit {
  /** The chains that the file declares and that are none of a Service. */
  readonly bases: readonly string[];
  /** Tagged chains, each behind those that it leads to. */
  readonly chains: readonly TreeChain[];
  readonly base: readonly BaseRule[];
  /** The base chains that its rules stand in or lead to. */
  readonly named: readonly string[];
  readonly problems: readonly Problem[];
}

export type Units = Readonly<Record<TableName, Unit>>;

/** Where a file is linked. */
export interface UnitScope {
  readonly family: Family;
  readonly host: HostValues;
  /** Whether endpoints stand where they are chosen, without a chain of their own: `endpointsInPlace`. */
  readonly inPlace: boolean;
}

/**
 * Links one file as far as that goes without the others: it reads every line by the closed grammar, gives the file's own
 * chains their names and puts its other rules in place. No file leads into another one's chains, so this is most of the work,
 * and it stays done while the file does not change.
 * @param namers where the names come from; left out: each chain gets its first choice
 */
export function linkUnits(
  sections: readonly ResolvedSection[],
  scope: UnitScope,
  namers: Readonly<Record<TableName, ChainNamer>> = { filter: new ChainNamer(), nat: new ChainNamer() },
): Units {
  const units = {} as Record<TableName, Unit>;
  for (const table of tableNames) {
    const ofTable = sections.filter((section) => section.table === table);
    units[table] = ofTable.length === 0 ? nothing : new Linking(table, ofTable, scope, namers[table]).run();
  }
  return units;
}

/** One list for all that are empty: a node has ten thousand files. */
const none: readonly never[] = [];
const orNone = <T>(list: readonly T[]): readonly T[] => (list.length === 0 ? none : list);

/** Lists of base chains that were made before. There are a few: files differ in the chains of their Services. */
const lists = new Map<string, readonly string[]>();
const listsMax = 64;

function known(list: readonly string[]): readonly string[] {
  const key = list.join(' ');
  const same = lists.get(key);
  if (same || lists.size >= listsMax) return same ?? list;
  lists.set(key, list);
  return list;
}

const nothing: Unit = { bases: [], chains: [], base: [], named: [], problems: [] };

/** A rule that was read. */
interface Read {
  readonly rule: Rule;
  /** Without `-A <chain> `, and without the name of the chain that it leads to. */
  readonly head: string;
  readonly leadsTo?: string;
}

class Linking {
  readonly #table: TableName;
  readonly #sections: readonly ResolvedSection[];
  readonly #scope: UnitScope;
  readonly #namer: ChainNamer;
  readonly #problems = new FileProblems();
  readonly #own = new Map<string, Read[]>();
  readonly #linked = new Map<string, TreeChain>();
  readonly #chains: TreeChain[] = [];
  readonly #named = new Set<string>();
  #inPlace: ReadonlyMap<string, WayTo> = new Map();

  constructor(table: TableName, sections: readonly ResolvedSection[], scope: UnitScope, namer: ChainNamer) {
    this.#table = table;
    this.#sections = sections;
    this.#scope = scope;
    this.#namer = namer;
  }

  run(): Unit {
    const declared = this.#sections.flatMap(({ chains }) => chains);
    for (const chain of declared) this.#declare(chain);
    const base: Read[] = [];
    for (const { rules } of this.#sections) {
      for (const written of rules) {
        for (const text of fillHost(written, this.#scope.host)) this.#read(text, base);
      }
    }
    if (this.#scope.inPlace) this.#inPlace = endpointsInPlace(this.#own, base, (rule) => choiceOf(rule) !== undefined);
    this.#linkOwn();
    const ready = base.map((read) => this.#baseRule(read));
    const bases = declared.filter((chain) => !isServiceChain(chain));
    const [chains, named] = [orNone(this.#chains), this.#named.size === 0 ? [] : [...this.#named]];
    return {
      bases: orNone(bases),
      chains,
      base: orNone(ready),
      named: known(named),
      problems: orNone(this.#problems.all),
    };
  }

  #declare(chain: string): void {
    const error = this.#own.has(chain) ? 'it is declared twice' : refuseChain(this.#table, chain);
    if (error !== undefined) this.#refuse(`chain ${chain}`, error);
    else if (isServiceChain(chain)) this.#own.set(chain, []);
  }

  #read(text: string, base: Read[]): void {
    const { family } = this.#scope;
    const rule = readRule(text, family);
    const error = isRuleError(rule) ? rule.error : this.#place(rule, base);
    if (error !== undefined) this.#refuse(`rule "${text}"`, error);
  }

  /** Puts a rule with its chain, or tells why it has no place there. */
  #place(rule: Rule, base: Read[]): string | undefined {
    const { chain, target } = rule;
    const tables: readonly TableName[] = target ? tablesOf[target.kind] : tableNames;
    if (!tables.includes(this.#table)) return `its target belongs into the ${tables.join(' or ')} table`;
    const text = printRule(lean(rule), this.#scope.family);
    const leadsTo = target && 'chain' in target ? target.chain : undefined;
    const head = text.slice(4 + chain.length, leadsTo === undefined ? undefined : -leadsTo.length);
    const read: Read = { rule, head, ...(leadsTo === undefined ? {} : { leadsTo }) };
    const own = this.#own.get(chain);
    if (leadsTo !== undefined && !this.#own.has(leadsTo)) {
      const why = refuseChain(this.#table, leadsTo);
      if (why !== undefined || isServiceChain(leadsTo))
        return `it leads to chain ${leadsTo}, which is not declared in this table`;
      const isFixed = (baseChainNames[this.#table] as readonly string[]).includes(leadsTo);
      if (!isFixed && !dispatchChains[this.#table].has(chain)) return `only a dispatch chain leads to ${leadsTo}`;
      this.#named.add(leadsTo);
    }
    if (own) own.push(read);
    else if (isServiceChain(chain) || refuseChain(this.#table, chain) !== undefined) {
      return `chain ${chain} is not declared in this table`;
    } else {
      this.#named.add(chain);
      base.push(read);
    }
    return undefined;
  }

  #linkOwn(): void {
    const targets = new Map<string, readonly string[]>();
    for (const [chain, reads] of this.#own) {
      targets.set(
        chain,
        reads.flatMap(({ leadsTo }) => (leadsTo !== undefined && this.#own.has(leadsTo) ? [leadsTo] : [])),
      );
    }
    const order = calleesFirst(targets);
    for (const chain of order) if (!this.#inPlace.has(chain)) this.#link(chain, this.#own.get(chain) ?? []);
    if (order.length === this.#own.size) return;
    const isDone = (chain: string): boolean => this.#linked.has(chain) || this.#inPlace.has(chain);
    const circle = [...this.#own.keys()].filter((chain) => !isDone(chain)).slice(0, 3);
    this.#refuse(`${this.#table} of ${this.#scope.family}`, `chains lead in a circle (${circle.join(', ')})`);
  }

  #link(chain: string, reads: readonly Read[]): void {
    try {
      const bodies = groupEndpoints(
        reads.map((read) => this.#bodyOf(read)),
        (rules, height) => this.#keep(this.#namer.add('SLU-GRP', rules, height)),
      );
      const texts = bodies.map(({ text }) => text);
      const height = 1 + Math.max(0, ...bodies.map((body) => body.height));
      this.#linked.set(chain, this.#keep(this.#namer.add(`SLU-${chain.slice('KUBE-'.length)}`, texts, height)));
    } catch (error) {
      if (!(error instanceof NamesExhausted)) throw error;
      this.#refuse(`chain ${chain}`, error.message);
    }
  }

  #keep(chain: TreeChain): TreeChain {
    this.#chains.push(chain);
    return chain;
  }

  #bodyOf({ rule, head, leadsTo }: Read): Body {
    if (leadsTo === undefined) return { text: head, height: 0 };
    const [inPlace, callee, chance] = [this.#inPlace.get(leadsTo), this.#linked.get(leadsTo), choiceOf(rule)];
    if (!inPlace && !callee) return { text: `${head}${baseChainName(leadsTo)}`, height: 1 };
    const way = inPlace ?? { before: '', behind: `-j ${callee?.name}` };
    // Joined, so that it is a string of its own and does not keep the line that it was cut from.
    const parts = inPlace ? [way.before, head.slice(0, -'-j '.length), way.behind] : [head, callee?.name];
    const body = { text: parts.join(''), height: callee?.height ?? 0 };
    const isWay = leadsTo.startsWith('KUBE-SEP-') && chance !== undefined;
    return isWay ? { ...body, endpoint: { logical: leadsTo, way, chance } } : body;
  }

  #baseRule(read: Read): BaseRule {
    const { rule, head, leadsTo } = read;
    const ends = rule.target !== undefined && finalTargets.has(rule.target.kind);
    const calls = leadsTo !== undefined && dispatchChains[this.#table].has(leadsTo) ? leadsTo : undefined;
    const body = calls === undefined ? this.#bodyOf(read) : { text: head, height: 0 };
    return { chain: rule.chain, body, place: placeOf(rule), ends, ...(calls === undefined ? {} : { calls }) };
  }

  #refuse(what: string, why: string): void {
    const message = what.startsWith(this.#table)
      ? `Cannot link ${what}: ${why}`
      : `Cannot link ${what} of ${this.#scope.family} ${this.#table}: ${why}`;
    this.#problems.add(refusal(message));
  }
}

const finalTargets: ReadonlySet<string> = new Set(['accept', 'drop', 'reject', 'dnat', 'masquerade']);

/**
 * Whether the comment of a rule is left out: that of the rule which leads to the chains of a Service says whose they are, and the kernel
 * checks each match at every commit. A rule without a target is there for its comment.
 */
const saysElsewhere = ({ chain, target }: Rule): boolean => isServiceChain(chain) && target !== undefined;

/**
 * A rule without what this layout does without. `--reap` takes clients whose time is over from the kernel's lists, which the programs of
 * a trial share: with a shorter time on trial it would take those that the old rules still know, should they come back
 * (docs/decisions/0011-lists-are-not-reaped.md). What a rule decides is the same without: it asks for the time by itself, and of a list
 * that is full the oldest client goes first.
 */
function lean(rule: Rule): Rule {
  const said = saysElsewhere(rule) ? withoutComment(rule) : rule;
  if (!said.matches.some((match) => match.kind === 'recent' && match.reap)) return said;
  return {
    ...said,
    matches: said.matches.map((match) => (match.kind === 'recent' ? { ...match, reap: false } : match)),
  };
}

/** The chance of a rule that jumps for nothing but chance; undefined for others. */
function choiceOf(rule: Rule): number | undefined {
  const asks = rule.source ?? rule.destination ?? rule.in ?? rule.out ?? rule.protocol;
  return asks === undefined && rule.target?.kind === 'jump' ? plainChance(rule.matches) : undefined;
}

/** The chance of matches that ask for nothing else; undefined when they ask for more. */
function plainChance(matches: readonly Match[]): number | undefined {
  let chance = certain;
  for (const match of matches) {
    if (match.kind === 'statistic') chance = match.chance;
    else if (match.kind !== 'comment') return undefined;
  }
  return chance;
}

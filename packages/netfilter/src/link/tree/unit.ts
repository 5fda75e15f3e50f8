import type { LinkedRule, TableUnit, FileUnits, TreeChain, RuleBody, EndpointRule } from './program.ts';
import { FileProblems } from '../../problem.ts';
import { fillHost, type HostValues } from '../../rules/host-values.ts';
import type { ResolvedSection } from '../section.ts';
import type { Family, TableName } from '../../family.ts';
import { printRule } from '../../rules/print.ts';
import { readRule } from '../../rules/read.ts';
import { certain, isRuleError, type Match, type Rule } from '../../rules/rule.ts';
import { dispatchChains, isServiceChain } from '../chains.ts';
import { refuseChain, tablesOf, unlinkable, withoutComment } from '../check.ts';
import { calleesFirst } from '../circle.ts';
import { tableNames } from '../program.ts';
import { groupEndpoints } from './groups.ts';
import { endpointsInPlace } from './in-place.ts';
import { placeOf } from './keys.ts';
import { baseChainNames, baseChainName } from './base-chains.ts';
import { NamesExhausted, ChainNamer } from './names.ts';

/** What the linking of a file depends on. */
export interface LinkScope {
  readonly family: Family;
  readonly host: HostValues;
  /** Whether endpoints are without chains of their own: `endpointsInPlace`. */
  readonly inPlace: boolean;
}

/**
 * Links one file as far as it is independent of the others: reads every line by the closed grammar, names the file's own chains and
 * classifies its other rules. No file jumps into another one's chains, so this is most of the work, and the result is valid until the
 * file changes.
 * @param namers choose the names of chains; by default each chain gets its natural name
 */
export function linkUnits(
  sections: readonly ResolvedSection[],
  scope: LinkScope,
  namers: Readonly<Record<TableName, ChainNamer>> = { filter: new ChainNamer(), nat: new ChainNamer() },
): FileUnits {
  const units = {} as Record<TableName, TableUnit>;
  for (const table of tableNames) {
    const ofTable = sections.filter((section) => section.table === table);
    units[table] = ofTable.length === 0 ? nothing : new UnitLinker(table, ofTable, scope, namers[table]).run();
  }
  return units;
}

/** Shared by all empty lists: a node has ten thousand files. */
const none: readonly never[] = [];
const orNone = <T>(list: readonly T[]): readonly T[] => (list.length === 0 ? none : list);

/** Equal lists of base chains share one object. Few lists exist: files differ in the chains of their Services. */
const lists = new Map<string, readonly string[]>();
const listsMax = 64;

function interned(list: readonly string[]): readonly string[] {
  const key = list.join(' ');
  const same = lists.get(key);
  if (same || lists.size >= listsMax) return same ?? list;
  lists.set(key, list);
  return list;
}

const nothing: TableUnit = { bases: [], chains: [], base: [], named: [], problems: [] };

/** Those of no file. */
export const noUnits: FileUnits = { filter: nothing, nat: nothing };

/** A rule, printed up to its jump target. */
interface PrintedRule {
  readonly rule: Rule;
  /** Without `-A <chain> `, and without the name of the chain that it jumps to. */
  readonly head: string;
  readonly targetChain?: string;
}

class UnitLinker {
  readonly #table: TableName;
  readonly #sections: readonly ResolvedSection[];
  readonly #scope: LinkScope;
  readonly #namer: ChainNamer;
  readonly #problems = new FileProblems();
  readonly #own = new Map<string, PrintedRule[]>();
  readonly #linked = new Map<string, TreeChain>();
  readonly #chains: TreeChain[] = [];
  readonly #named = new Set<string>();
  #inPlace: ReadonlyMap<string, EndpointRule> = new Map();

  constructor(table: TableName, sections: readonly ResolvedSection[], scope: LinkScope, namer: ChainNamer) {
    this.#table = table;
    this.#sections = sections;
    this.#scope = scope;
    this.#namer = namer;
  }

  run(): TableUnit {
    const declared = this.#sections.flatMap(({ chains }) => chains);
    for (const chain of declared) this.#declare(chain);
    const base: PrintedRule[] = [];
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
      named: interned(named),
      problems: orNone(this.#problems.all),
    };
  }

  #declare(chain: string): void {
    const error = this.#own.has(chain) ? 'it is declared twice' : refuseChain(this.#table, chain);
    if (error !== undefined) this.#refuse(`chain ${chain}`, error);
    else if (isServiceChain(chain)) this.#own.set(chain, []);
  }

  #read(text: string, base: PrintedRule[]): void {
    const { family } = this.#scope;
    const rule = readRule(text, family);
    const error = isRuleError(rule) ? rule.error : this.#append(rule, base);
    if (error !== undefined) this.#refuse(`rule "${text}"`, error);
  }

  /** Appends a rule to its chain; returns why it cannot. */
  #append(rule: Rule, base: PrintedRule[]): string | undefined {
    const { chain, target } = rule;
    const tables: readonly TableName[] = target ? tablesOf[target.kind] : tableNames;
    if (!tables.includes(this.#table)) return `its target is valid only in the ${tables.join(' or ')} table`;
    const text = printRule(lean(rule), this.#scope.family);
    const targetChain = target && 'chain' in target ? target.chain : undefined;
    const head = text.slice(4 + chain.length, targetChain === undefined ? undefined : -targetChain.length);
    const read: PrintedRule = { rule, head, ...(targetChain === undefined ? {} : { targetChain }) };
    const own = this.#own.get(chain);
    if (targetChain !== undefined && !this.#own.has(targetChain)) {
      const why = refuseChain(this.#table, targetChain);
      if (why !== undefined || isServiceChain(targetChain))
        return `it jumps to chain ${targetChain}, which is not declared in this table`;
      const isFixed = (baseChainNames[this.#table] as readonly string[]).includes(targetChain);
      if (!isFixed && !dispatchChains[this.#table].has(chain))
        return `only a dispatch chain may jump to ${targetChain}`;
      this.#named.add(targetChain);
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
        reads.flatMap(({ targetChain }) =>
          targetChain !== undefined && this.#own.has(targetChain) ? [targetChain] : [],
        ),
      );
    }
    const order = calleesFirst(targets);
    for (const chain of order) if (!this.#inPlace.has(chain)) this.#link(chain, this.#own.get(chain) ?? []);
    if (order.length === this.#own.size) return;
    const isDone = (chain: string): boolean => this.#linked.has(chain) || this.#inPlace.has(chain);
    const circle = [...this.#own.keys()].filter((chain) => !isDone(chain)).slice(0, 3);
    this.#refuse(`${this.#table} of ${this.#scope.family}`, `chains form a loop (${circle.join(', ')})`);
  }

  #link(chain: string, reads: readonly PrintedRule[]): void {
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

  #bodyOf({ rule, head, targetChain }: PrintedRule): RuleBody {
    if (targetChain === undefined) return { text: head, height: 0 };
    const [inPlace, callee, chance] = [this.#inPlace.get(targetChain), this.#linked.get(targetChain), choiceOf(rule)];
    if (!inPlace && !callee) return { text: `${head}${baseChainName(targetChain)}`, height: 1 };
    const endpointRule = inPlace ?? { match: '', target: `-j ${callee?.name}` };
    // `join` makes a string of its own; a slice would keep the whole line in memory.
    const parts = inPlace ? [inPlace.match, head.slice(0, -'-j '.length), inPlace.target] : [head, callee?.name];
    const body = { text: parts.join(''), height: callee?.height ?? 0 };
    const isChoice = targetChain.startsWith('KUBE-SEP-') && chance !== undefined;
    return isChoice ? { ...body, endpoint: { logical: targetChain, rule: endpointRule, chance } } : body;
  }

  #baseRule(read: PrintedRule): LinkedRule {
    const { rule, head, targetChain } = read;
    const isTerminal = rule.target !== undefined && terminalTargets.has(rule.target.kind);
    const calls = targetChain !== undefined && dispatchChains[this.#table].has(targetChain) ? targetChain : undefined;
    const body = calls === undefined ? this.#bodyOf(read) : { text: head, height: 0 };
    return { chain: rule.chain, body, place: placeOf(rule), isTerminal, ...(calls === undefined ? {} : { calls }) };
  }

  #refuse(what: string, why: string): void {
    const message = what.startsWith(this.#table)
      ? `Cannot link ${what}: ${why}`
      : `Cannot link ${what} of ${this.#scope.family} ${this.#table}: ${why}`;
    this.#problems.add(unlinkable(message));
  }
}

const terminalTargets: ReadonlySet<string> = new Set(['accept', 'drop', 'reject', 'dnat', 'masquerade']);

/**
 * Whether a rule's comment is left out: the rule that jumps to the Service's chains names the Service already, and the kernel
 * checks each match at every commit. A rule without a target exists for its comment.
 */
const isCommentRedundant = ({ chain, target }: Rule): boolean => isServiceChain(chain) && target !== undefined;

/**
 * A rule without redundant comments and `--reap`. `--reap` removes clients whose time-out has passed from the kernel's lists, which both
 * programs of a probation share: with a shorter time-out on probation it would remove clients that the old rules need after a rollback
 * (docs/decisions/0011-lists-are-not-reaped.md). Verdicts are the same without it: the rule checks the time-out itself, and a full list
 * drops its oldest client first.
 */
function lean(rule: Rule): Rule {
  const bare = isCommentRedundant(rule) ? withoutComment(rule) : rule;
  if (!bare.matches.some((match) => match.kind === 'recent' && match.reap)) return bare;
  return {
    ...bare,
    matches: bare.matches.map((match) => (match.kind === 'recent' ? { ...match, reap: false } : match)),
  };
}

/** The probability of a jump without any other match; undefined for other rules. */
function choiceOf(rule: Rule): number | undefined {
  const condition = rule.source ?? rule.destination ?? rule.in ?? rule.out ?? rule.protocol;
  return condition === undefined && rule.target?.kind === 'jump' ? plainChance(rule.matches) : undefined;
}

/** The probability of matches that consist of nothing else, besides comments; otherwise undefined. */
function plainChance(matches: readonly Match[]): number | undefined {
  let chance = certain;
  for (const match of matches) {
    if (match.kind === 'statistic') chance = match.chance;
    else if (match.kind !== 'comment') return undefined;
  }
  return chance;
}

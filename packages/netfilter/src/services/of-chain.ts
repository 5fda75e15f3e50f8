import type { Family } from '../family.ts';
import type { TableProgram } from '../link/program.ts';
import { marksLate } from '../link/tree/in-place.ts';
import { printRule } from '../rules/print.ts';
import { certain, type Match, type Rule } from '../rules/rule.ts';
import { isGroup, isOfEndpoint, listOf, siblingOf, withoutTag } from './chain-names.ts';
import { commentOf, endpointOf, masquerades, matchesOnly, readLinked } from './of-rule.ts';
import type { Service, ServiceEndpoint } from './services.ts';

/** A Service as the chain that chooses its endpoints has it. */
export interface ServiceOfChain extends Service {
  /** The other rules of its chain; `*` in the place of those that choose an endpoint. */
  readonly frame: readonly string[];
  /** The chains of its endpoints and of groups of these. */
  readonly chains: readonly string[];
}

/**
 * Reads the chain of a Service.
 * @returns undefined if its rules are not of the form that `sluice render` writes, so that endpoints cannot be distinguished from other rules
 */
export function readService(family: Family, chain: string, table: TableProgram): ServiceOfChain | undefined {
  const texts = table.chains.get(chain) ?? [];
  const rules = texts.map(readLinked);
  const first = rules.findIndex(isChoice);
  const end = rules.findLastIndex(isChoice) + 1;
  const choosing = rules.slice(Math.max(first, 0), end);
  const choices = first < 0 || !choosing.every((rule) => rule !== undefined) ? undefined : readChoices(choosing, table);
  if (!choices) return undefined;
  const body = (text: string): string => text.slice(3 + chain.length);
  return {
    ...choices,
    key: `${family} ${withoutTag(chain)}`,
    family,
    siblingKey: `${family} ${siblingOf(withoutTag(chain))}`,
    frame: [...texts.slice(0, first).map(body), '*', ...texts.slice(end).map(body)],
    onlyMasquerades:
      first <= 1 && end === rules.length && rules.slice(0, first).every((rule) => rule && masquerades(rule)),
    frontends: [],
    isLocalOutside: false,
  };
}

type Choices = Pick<ServiceOfChain, 'choice' | 'endpoints' | 'affinityOrder' | 'chains'>;

/** A rule that leads to an endpoint. */
interface ChoiceRule {
  /** Its matches, without the probability. */
  readonly kind: string;
  readonly comment: string;
  /** The endpoint's chain; in place: its address and port. */
  readonly target: string;
  /** In place (packages/netfilter/src/link/tree/in-place.ts): the endpoint itself. */
  readonly inPlace?: ServiceEndpoint;
}

const chainOf = ({ target }: Rule): string => (target && 'chain' in target ? target.chain : '');
const matchOf = <K extends Match['kind']>(rule: Rule, kind: K): Extract<Match, { kind: K }> | undefined =>
  rule.matches.find((match): match is Extract<Match, { kind: K }> => match.kind === kind);
const chanceOf = (rule: Rule): number | undefined => matchOf(rule, 'statistic')?.chance;

const isInPlace = (rule: Rule): boolean =>
  rule.target?.kind === 'dnat' &&
  rule.protocol !== undefined &&
  matchesOnly(rule, 'statistic') &&
  !matchOf(rule, 'comment');

const isChoice = (rule: Rule | undefined): boolean =>
  rule !== undefined && (isInPlace(rule) || isOfEndpoint(chainOf(rule)));

/** Whether a rule searches a list of clients. */
const isAgain = (rule: Rule): boolean =>
  rule.protocol === undefined &&
  matchesOnly(rule, 'recent') &&
  matchOf(rule, 'recent')?.action === 'rcheck' &&
  rule.target?.kind === 'jump';

/**
 * Reads the rules that choose an endpoint: first, with session affinity, one per endpoint that searches its list of clients; then random
 * choice with equal chances, also by groups (`packages/netfilter/src/link/tree/groups.ts`).
 * @returns undefined for any other rules: an endpoint had another chance, or was meant for some clients only
 */
function readChoices(rules: readonly Rule[], table: TableProgram): Choices | undefined {
  const first = Math.max(
    0,
    rules.findIndex((rule) => !isAgain(rule)),
  );
  const dice = rollOf(rules.slice(first), table);
  if (!dice) return undefined;
  const affinityRules = rules.slice(0, first).map(readAgain);
  const [texts, endpoints] = [new Map<string, string>(), new Map<string, ServiceEndpoint>()];
  for (const { target, inPlace } of dice.rules) {
    const read = inPlace ? ([target, inPlace] as const) : readEndpoint(target, table);
    if (!read || endpoints.has(read[0]) || texts.has(target)) return undefined;
    texts.set(target, read[0]);
    endpoints.set(...read);
  }
  if (affinityRules.length > 0 && !asksAll(affinityRules, dice)) return undefined;
  const aboutOf = ({ kind, comment, target }: ChoiceRule): string =>
    `${kind} ${comment.replace(texts.get(target) ?? '*', '*')}`;
  const choice = new Set([...dice.rules, ...affinityRules].map(aboutOf));
  if (choice.size !== (affinityRules.length > 0 ? 2 : 1)) return undefined;
  return {
    choice: [...choice].join('\n'),
    endpoints,
    affinityOrder: affinityRules.map(({ target }) => texts.get(target) ?? ''),
    chains: [...[...texts.keys()].filter(isOfEndpoint), ...dice.groups],
  };
}

/** If the rule searches the list of another endpoint, `kind` has its name and so differs from the others. */
function readAgain(rule: Rule): ChoiceRule {
  const target = chainOf(rule);
  const matches = rule.matches.filter(({ kind }) => kind !== 'comment');
  const kind = formOf({ ...rule, matches, target: { kind: 'return' } }, { list: listOf(target) });
  return { kind, comment: commentOf(rule), target };
}

/** Whether the lists of all endpoints are searched, in the order of the choice; within groups in any order. */
function asksAll(affinityRules: readonly ChoiceRule[], { rules, groups }: Roll): boolean {
  const targets = (some: readonly ChoiceRule[]): readonly string[] => some.map(({ target }) => target);
  const [affinityOrder, chosen] = [targets(affinityRules), targets(rules)];
  if (groups.length === 0) return affinityOrder.join() === chosen.join();
  return affinityOrder.toSorted().join() === chosen.toSorted().join();
}

/** A random choice with the same chance for each endpoint. */
interface Roll {
  readonly rules: readonly ChoiceRule[];
  readonly groups: readonly string[];
}

/** @returns undefined if the chances differ */
function rollOf(rules: readonly (Rule | undefined)[], table: TableProgram): Roll | undefined {
  const rolls = rules.map((rule) => rule && rollBehind(rule, table));
  let left = rolls.reduce((sum, roll) => sum + (roll?.rules.length ?? 0), 0);
  for (const [at, roll] of rolls.entries()) {
    const rule = rules[at];
    if (!rule || !roll || roll.rules.length === 0 || !isShare(chanceOf(rule), roll.rules.length, left))
      return undefined;
    left -= roll.rules.length;
  }
  return { rules: rolls.flatMap((roll) => roll?.rules ?? []), groups: rolls.flatMap((roll) => roll?.groups ?? []) };
}

function rollBehind(rule: Rule, table: TableProgram): Roll | undefined {
  if (isInPlace(rule)) return { rules: [inPlaceOf(rule, table)], groups: [] };
  const target = chainOf(rule);
  if (rule.protocol !== undefined || !matchesOnly(rule, 'statistic') || !isOfEndpoint(target)) return undefined;
  if (rule.target?.kind !== (isGroup(target) ? 'goto' : 'jump')) return undefined;
  if (!isGroup(target)) return { rules: [{ kind: 'dice', comment: commentOf(rule), target }], groups: [] };
  const behind = rollOf((table.chains.get(target) ?? []).map(readLinked), table);
  return behind && { rules: behind.rules, groups: [target, ...behind.groups] };
}

function inPlaceOf(rule: Rule, table: TableProgram): ChoiceRule {
  const form = `${marksLate(table) ? 'in place' : 'unmarked'} ${formOf({ ...rule, matches: [] }, {})}`;
  const address = addressOf(rule);
  const own = { address, form, chain: '', weight: 1, masqueradesItself: marksLate(table), remembersClients: false };
  return { kind: 'dice', comment: '', target: endpointOf(rule) ?? '', inPlace: own };
}

/** Whether a chance is `size` of `left`; it was rounded more than once before it was printed. The last rule has none. */
function isShare(chance: number | undefined, size: number, left: number): boolean {
  if (size === left || chance === undefined) return size === left && chance === undefined;
  return Math.abs(chance - Math.round((size / left) * certain)) <= 1;
}

const addressOf = ({ target }: Rule): string => (target?.kind === 'dnat' ? target.address : '');

/** Reads the chain of an endpoint. */
function readEndpoint(chain: string, table: TableProgram): readonly [string, ServiceEndpoint] | undefined {
  const rules = (table.chains.get(chain) ?? []).map(readLinked);
  const whole = rules.filter((rule) => rule !== undefined);
  const [own, ...others] = whole.filter(({ target }) => target?.kind === 'dnat');
  const text = own && endpointOf(own);
  if (!own || text === undefined || others.length > 0 || whole.length < rules.length) return undefined;
  const address = addressOf(own);
  const source = `${address}/${address.includes(':') ? 128 : 32}`;
  const isFromItself = (rule: Rule): boolean => rule.source?.negated === false && rule.source.value === source;
  const remembers = ({ matches }: Rule): boolean =>
    matches.some((match) => match.kind === 'recent' && match.action === 'set' && match.name === listOf(chain));
  return [
    text,
    {
      address,
      form: whole.map((rule) => formOf(rule, { source, list: listOf(chain) })).join('\n'),
      chain: withoutTag(chain),
      weight: 1,
      masqueradesItself: whole.some((rule) => isFromItself(rule) && masquerades(rule)),
      remembersClients: whole.some(remembers),
    },
  ];
}

/** A rule without its chain, with `*` for what belongs to one endpoint. */
function formOf(rule: Rule, own: { readonly source?: string; readonly list?: string }): string {
  const matches = rule.matches.map(
    (match): Match => (match.kind === 'recent' && match.name === own.list ? { ...match, name: '*' } : match),
  );
  const target = rule.target?.kind === 'dnat' ? { ...rule.target, address: '*' } : rule.target;
  const source = rule.source && rule.source.value === own.source ? { ...rule.source, value: '*' } : rule.source;
  return printRule({ ...rule, chain: '', matches, ...(target ? { target } : {}), ...(source ? { source } : {}) });
}

import { marksLate, type TableProgram } from '@sluice/netfilter';
import { addressOf } from './approved.ts';

/** One endpoint of a Service. */
export interface EndpointRules {
  /** Its chain, without the tag; `''` if it is in place (packages/netfilter/src/link/tree/in-place.ts). */
  readonly chain: string;
  /** Its rules, with `*` for its own address and name. */
  readonly form: string;
}

/** How a Service chooses among endpoints. */
export interface Choices {
  /** The comment and the matches of the rules that lead to endpoints, with `*` for the endpoint itself. */
  readonly pattern: string;
  /** By `address:port`. */
  readonly endpoints: ReadonlyMap<string, EndpointRules>;
  /** Session affinity: each `address:port`, in the order in which their lists of clients are searched; empty without. */
  readonly affinityOrder: readonly string[];
  /** The chains of endpoints and of groups of these. */
  readonly chains: readonly string[];
}

/** The name of a chain without its tag. */
export const withoutTag = (name: string): string => name.replace(/\.[0-9a-z]{2}$/, '');

const commentPart = / -m comment --comment ("(?:[^"\\]|\\.)*"|\S+)/;
const dicePart = /^(?: -m statistic --mode random --probability (0\.\d+))? -([jg]) (\S+)$/;
/** A rule for an endpoint in place: protocol, probability, destination. */
const inPlacePart =
  /^ (-p (?:tcp|udp|sctp))(?: -m statistic --mode random --probability (0\.\d+))? -j DNAT --to-destination (\S+)$/;
const againPart = /^( -m recent --rcheck .*)(?<= --name )(\S+)( .*)? -j (\S+)$/;

/** Whether a rule chooses an endpoint in place. */
export const isInPlace = (body: string): boolean => inPlacePart.test(body);

/** The rules of a chain without its name. */
export const bodiesOf = (chain: string, table: TableProgram): readonly string[] =>
  (table.chains.get(chain) ?? []).map((rule) => rule.slice(3 + chain.length));

/**
 * Reads the rules that choose an endpoint: first, with session affinity, one per endpoint that searches its list of clients; then random
 * choice with equal chances, perhaps by groups (`packages/netfilter/src/link/tree/groups.ts`).
 * @returns undefined for any other rules: an endpoint had another chance, or was meant for some clients only
 */
export function readChoices(bodies: readonly string[], table: TableProgram): Choices | undefined {
  const first = bodies.findIndex((body) => !againPart.test(plain(body)));
  const dice = rollOf(bodies.slice(Math.max(0, first)), table);
  const affinityRules = bodies.slice(0, Math.max(0, first)).map((body) => readAgain(body));
  if (!dice) return undefined;
  const [texts, known] = [new Map<string, string>(), new Map<string, EndpointRules>()];
  for (const { target, inPlace } of dice.rules) {
    const read = inPlace ? { to: target, form: inPlace } : readEndpoint(target, table);
    if (!read || known.has(read.to) || texts.has(target)) return undefined;
    texts.set(target, read.to);
    known.set(read.to, { chain: inPlace ? '' : withoutTag(target), form: read.form });
  }
  if (affinityRules.length > 0 && !asksAll(affinityRules, dice)) return undefined;
  const pattern = new Set([...dice.rules, ...affinityRules].map((rule) => `${rule.kind}${aboutOf(rule, texts)}`));
  if (pattern.size !== (affinityRules.length > 0 ? 2 : 1)) return undefined;
  const affinityOrder = affinityRules.map(({ target }) => texts.get(target) ?? '');
  return {
    pattern: [...pattern].join('\n'),
    endpoints: known,
    affinityOrder,
    chains: [...[...texts.keys()].filter(isChain), ...dice.groups],
  };
}

/** A rule that leads to the chain of an endpoint. */
interface ChoiceRule {
  /** Its matches, without the probability. */
  readonly kind: string;
  readonly comment: string;
  /** The endpoint's chain; in place: its address and port. */
  readonly target: string;
  /** In place: the form of the rule. */
  readonly inPlace?: string;
}

/** Whether the target of a rule is a chain and not an address. */
const isChain = (target: string): boolean => /^(?:SLU|KUBE)-/.test(target);

const plain = (body: string): string => body.replace(commentPart, '');
const commentOf = (body: string): string => commentPart.exec(body)?.[1] ?? '';
const aboutOf = ({ comment, target }: ChoiceRule, texts: ReadonlyMap<string, string>): string =>
  comment.replace(texts.get(target) ?? '*', '*');

/** The name of an endpoint's list of clients: that of its chain in layout `flat`. */
const listOf = (chain: string): string => withoutTag(chain).replace(/^SLU-/, 'KUBE-');

/** If the rule searches the list of another endpoint, `kind` has its name and so differs from the others. */
function readAgain(body: string): ChoiceRule {
  const [, before = '', list = '', after = '', target = ''] = againPart.exec(plain(body)) ?? [];
  const name = list === listOf(target) ? '*' : list;
  return { kind: `${before}${name}${after}`, comment: commentOf(body), target };
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
function rollOf(bodies: readonly string[], table: TableProgram): Roll | undefined {
  const rolls = bodies.map((body) => rollBehind(body, table));
  let left = rolls.reduce((sum, roll) => sum + (roll?.rules.length ?? 0), 0);
  for (const roll of rolls) {
    if (!roll || roll.rules.length === 0 || !isShare(roll.chance, roll.rules.length, left)) return undefined;
    left -= roll.rules.length;
  }
  return { rules: rolls.flatMap((roll) => roll?.rules ?? []), groups: rolls.flatMap((roll) => roll?.groups ?? []) };
}

function rollBehind(body: string, table: TableProgram): (Roll & { readonly chance: string | undefined }) | undefined {
  const [, asks, share, to] = inPlacePart.exec(body) ?? [];
  if (to !== undefined) {
    const inPlace = `${marksLate(table) ? 'in place' : 'unmarked'} ${asks}${to.replace(/.*(?=:\d+$)/, ' *')}`;
    return { rules: [{ kind: 'dice', comment: '', target: to, inPlace }], groups: [], chance: share };
  }
  const [, chance, go, target = ''] = dicePart.exec(plain(body)) ?? [];
  if (!/^(?:SLU|KUBE)-(?:SEP|GRP)-/.test(target)) return undefined;
  const isGroup = target.startsWith('SLU-GRP-');
  if (go !== (isGroup ? 'g' : 'j')) return undefined;
  if (!isGroup) return { rules: [{ kind: 'dice', comment: commentOf(body), target }], groups: [], chance };
  const behind = rollOf(bodiesOf(target, table), table);
  return behind && { rules: behind.rules, groups: [target, ...behind.groups], chance };
}

/** The kernel's unit of probabilities; they were rounded more than once before they are printed. */
const certain = 2 ** 31;

/** Whether a chance is `size` of `left`. The last rule has no probability. */
function isShare(chance: string | undefined, size: number, left: number): boolean {
  if (size === left || chance === undefined) return size === left && chance === undefined;
  return Math.abs(Math.round(Number(chance) * certain) - Math.round((size / left) * certain)) <= 1;
}

/** Reads the chain of an endpoint. @returns its address and port, and the form of its rules */
function readEndpoint(chain: string, table: TableProgram): { readonly to: string; readonly form: string } | undefined {
  const bodies = bodiesOf(chain, table);
  const found = bodies.flatMap((body) => / --to-destination (\S+)$/.exec(body)?.[1] ?? []);
  const to = found[0];
  if (to === undefined || found.length > 1) return undefined;
  const address = addressOf(to);
  const own = new Set([address, `${address}/${address.includes(':') ? 128 : 32}`]);
  const forms = bodies.map((body) =>
    body
      .replace(/ -s (\S+)/, (all, source: string) => (own.has(source) ? ' -s *' : all))
      .replace(/ --name (\S+)/, (all, name: string) => (name === listOf(chain) ? ' --name *' : all))
      .replace(/ --to-destination \S+(:\d+)$/, ' --to-destination *$1'),
  );
  return { to, form: forms.join('\n') };
}

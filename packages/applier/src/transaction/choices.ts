import { marksLate, type TableProgram } from '@sluice/bundle';
import { addressOf } from './approved.ts';

/** One endpoint of a Service. */
export interface EndpointRules {
  /** Its chain, without what contents decide; `''` where it stands in place (packages/bundle/src/link/tree/in-place.ts). */
  readonly chain: string;
  /** What is done for it, rule by rule, with `*` for its own address and name. */
  readonly form: string;
}

/** How a Service chooses among endpoints. */
export interface Choices {
  /** What is said and asked on the way to each endpoint, with `*` for the endpoint itself. */
  readonly manner: string;
  /** By `address:port`. */
  readonly endpoints: ReadonlyMap<string, EndpointRules>;
  /** Each `address:port` in the order in which clients that come again are asked for; none without session affinity. */
  readonly asked: readonly string[];
  /** The chains of endpoints and of groups of these. */
  readonly chains: readonly string[];
}

/** The name of a chain without what its content decides. */
export const withoutTag = (name: string): string => name.replace(/\.[0-9a-z]{2}$/, '');

const commentPart = / -m comment --comment ("(?:[^"\\]|\\.)*"|\S+)/;
const dicePart = /^(?: -m statistic --mode random --probability (0\.\d+))? -([jg]) (\S+)$/;
/** An endpoint in place: the protocol, the dice, where it leads. */
const inPlacePart =
  /^ (-p (?:tcp|udp|sctp))(?: -m statistic --mode random --probability (0\.\d+))? -j DNAT --to-destination (\S+)$/;
const againPart = /^( -m recent --rcheck .*)(?<= --name )(\S+)( .*)? -j (\S+)$/;

/** Whether a rule chooses an endpoint that stands in place. */
export const isInPlace = (body: string): boolean => inPlacePart.test(body);

/** The rules of a chain without its name. */
export const bodiesOf = (chain: string, table: TableProgram): readonly string[] =>
  (table.chains.get(chain) ?? []).map((rule) => rule.slice(3 + chain.length));

/**
 * Reads rules that choose an endpoint: first, with session affinity, one for each that asks whether it had the client before, then dice
 * that give each the same chance, perhaps by groups (`packages/bundle/src/link/tree/groups.ts`).
 * @returns undefined for rules that are anything else: some endpoint had another chance, or was meant for some clients only
 */
export function readChoices(bodies: readonly string[], table: TableProgram): Choices | undefined {
  const first = bodies.findIndex((body) => !againPart.test(plain(body)));
  const dice = rollOf(bodies.slice(Math.max(0, first)), table);
  const again = bodies.slice(0, Math.max(0, first)).map((body) => readAgain(body));
  if (!dice) return undefined;
  const [texts, known] = [new Map<string, string>(), new Map<string, EndpointRules>()];
  for (const { target, inPlace } of dice.ways) {
    const read = inPlace ? { to: target, form: inPlace } : readEndpoint(target, table);
    if (!read || known.has(read.to) || texts.has(target)) return undefined;
    texts.set(target, read.to);
    known.set(read.to, { chain: inPlace ? '' : withoutTag(target), form: read.form });
  }
  if (again.length > 0 && !asksAll(again, dice)) return undefined;
  const manner = new Set([...dice.ways, ...again].map((way) => `${way.kind}${aboutOf(way, texts)}`));
  if (manner.size !== (again.length > 0 ? 2 : 1)) return undefined;
  const asked = again.map(({ target }) => texts.get(target) ?? '');
  return {
    manner: [...manner].join('\n'),
    endpoints: known,
    asked,
    chains: [...[...texts.keys()].filter(isChain), ...dice.groups],
  };
}

/** A rule that leads to the chain of an endpoint. */
interface Way {
  /** What is asked of the packet but for dice. */
  readonly kind: string;
  readonly comment: string;
  /** Its chain; or where it leads to, in place. */
  readonly target: string;
  /** What is done for it there. */
  readonly inPlace?: string;
}

/** Whether a way's target is a chain: the others begin with an address. */
const isChain = (target: string): boolean => /^(?:SLU|KUBE)-/.test(target);

const plain = (body: string): string => body.replace(commentPart, '');
const commentOf = (body: string): string => commentPart.exec(body)?.[1] ?? '';
const aboutOf = ({ comment, target }: Way, texts: ReadonlyMap<string, string>): string =>
  comment.replace(texts.get(target) ?? '*', '*');

/** Every endpoint has a list of clients by the name that its chain has in layout `flat`. */
const listOf = (chain: string): string => withoutTag(chain).replace(/^SLU-/, 'KUBE-');

/** A rule that asks another endpoint's list keeps its name, and so is of another kind. */
function readAgain(body: string): Way {
  const [, before = '', list = '', after = '', target = ''] = againPart.exec(plain(body)) ?? [];
  const name = list === listOf(target) ? '*' : list;
  return { kind: `${before}${name}${after}`, comment: commentOf(body), target };
}

/** Whether all endpoints are asked, in their order; groups have one of their own. */
function asksAll(again: readonly Way[], { ways, groups }: Roll): boolean {
  const targets = (some: readonly Way[]): readonly string[] => some.map(({ target }) => target);
  const [asked, chosen] = [targets(again), targets(ways)];
  if (groups.length === 0) return asked.join() === chosen.join();
  return asked.toSorted().join() === chosen.toSorted().join();
}

/** Dice that give each endpoint the same chance. */
interface Roll {
  readonly ways: readonly Way[];
  readonly groups: readonly string[];
}

/** @returns undefined where they do not */
function rollOf(bodies: readonly string[], table: TableProgram): Roll | undefined {
  const rolls = bodies.map((body) => rollBehind(body, table));
  let left = rolls.reduce((sum, roll) => sum + (roll?.ways.length ?? 0), 0);
  for (const roll of rolls) {
    if (!roll || roll.ways.length === 0 || !isShare(roll.chance, roll.ways.length, left)) return undefined;
    left -= roll.ways.length;
  }
  return { ways: rolls.flatMap((roll) => roll?.ways ?? []), groups: rolls.flatMap((roll) => roll?.groups ?? []) };
}

function rollBehind(body: string, table: TableProgram): (Roll & { readonly chance: string | undefined }) | undefined {
  const [, asks, share, to] = inPlacePart.exec(body) ?? [];
  if (to !== undefined) {
    const inPlace = `${marksLate(table) ? 'in place' : 'unmarked'} ${asks}${to.replace(/.*(?=:\d+$)/, ' *')}`;
    return { ways: [{ kind: 'dice', comment: '', target: to, inPlace }], groups: [], chance: share };
  }
  const [, chance, go, target = ''] = dicePart.exec(plain(body)) ?? [];
  if (!/^(?:SLU|KUBE)-(?:SEP|GRP)-/.test(target)) return undefined;
  const isGroup = target.startsWith('SLU-GRP-');
  if (go !== (isGroup ? 'g' : 'j')) return undefined;
  if (!isGroup) return { ways: [{ kind: 'dice', comment: commentOf(body), target }], groups: [], chance };
  const behind = rollOf(bodiesOf(target, table), table);
  return behind && { ways: behind.ways, groups: [target, ...behind.groups], chance };
}

/** In what the kernel counts chances: they were rounded more than once before they are printed. */
const certain = 2 ** 31;

/** Whether a chance is so many of those that are left. The last ones need no dice. */
function isShare(chance: string | undefined, size: number, left: number): boolean {
  if (size === left || chance === undefined) return size === left && chance === undefined;
  return Math.abs(Math.round(Number(chance) * certain) - Math.round((size / left) * certain)) <= 1;
}

/** What stands in the chain of an endpoint, which leads to one address and port. */
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

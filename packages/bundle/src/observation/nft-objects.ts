import { compareText, type Json, objectOf } from '@sluice/netfilter';
import { readStatements } from './nft-text/statements.ts';
import { Words, wordsOf } from './nft-text/words.ts';
import type { NftObject, NftTable } from './observation.ts';

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * The tables with a base chain that packets of Services meet, out of the objects that `nft -j list ruleset` or `list table` prints. Tables
 * that iptables keeps in nftables are left out: its save tools print them. Bridge and netdev tables, and hooks of devices, are named, because
 * no layer beneath IP is followed.
 * @returns the tables, and the names of tables that are not followed
 */
export function tablesOf(objects: readonly NftObject[]): {
  readonly tables: readonly NftTable[];
  readonly notFollowed: readonly string[];
} {
  // The kernel has registered no hook of these.
  const dormant = new Set<string>();
  const grouped = new Map<string, { family: string; name: string; objects: NftObject[] }>();
  for (const object of objects) {
    const [kind = ''] = Object.keys(object);
    const body = objectOf(object[kind]);
    const family = textOf(body['family']);
    const name = textOf(kind === 'table' ? body['name'] : body['table']);
    if (!bodies.has(kind) || family === '') continue;
    const key = `${family} ${name}`;
    const table = grouped.get(key) ?? { family, name, objects: [] };
    grouped.set(key, table);
    if (kind === 'table' && [body['flags']].flat().includes('dormant')) dormant.add(key);
    if (kind !== 'table') table.objects.push({ [kind]: body });
  }
  const tables: NftTable[] = [];
  const notFollowed: string[] = [];
  for (const [key, { family, name, objects: listed }] of [...grouped].toSorted(([a], [b]) => compareText(a, b))) {
    const own = canonicalObjects(listed);
    const hooks = own.map((object) => objectOf(object['chain'])['hook']).filter((hook) => hook !== undefined);
    if (hooks.length === 0 || dormant.has(key)) continue;
    // A table of both families may have hooks of a device, beneath IP.
    const isBeneath = hooks.includes('ingress') || hooks.includes('egress');
    if (!isBeneath && (family === 'ip' || family === 'ip6' || family === 'inet')) {
      if (!isOfIptables(family, name)) tables.push({ family, name, objects: own });
    } else notFollowed.push(key);
  }
  return { tables, notFollowed };
}

/** Whether a table has the name of one that iptables-nft makes: then its save tool prints it, and a foreign rule in it, too. */
export const isOfIptables = (family: string, name: string): boolean =>
  (family === 'ip' || family === 'ip6') && /^(?:filter|nat|mangle|raw|security)$/.test(name);

const bodies: ReadonlySet<string> = new Set(['table', 'chain', 'rule', 'set', 'map']);

/**
 * Without what the kernel numbers, packets change, the sort order of a hash decides, or one form of listing has and the other one lacks:
 * `nft list` and `nft -j list` of one table have equal objects.
 */
function canonicalObjects(objects: readonly NftObject[]): readonly NftObject[] {
  const read = objects.map((object): NftObject => {
    const { rule } = object;
    if (rule === undefined) return object;
    const { handle: _handle, family: _family, table: _table, comment: _comment, ...body } = objectOf(rule);
    return { rule: { ...body, expr: statementsOf(body['expr']) } };
  });
  const filled = new Set(read.flatMap(({ rule }) => filledBy(objectOf(rule)['expr'])));
  const canonical = read.map((object): NftObject => {
    const [kind = ''] = Object.keys(object);
    const body = objectOf(object[kind]);
    if (kind === 'set' || kind === 'map') return { [kind]: canonicalSet(body, filled.has(textOf(body['name']))) };
    if (kind !== 'chain') return object;
    const { handle: _handle, family: _family, table: _table, comment: _comment, ...rest } = body;
    return { chain: rest };
  });
  const placeOf = (object: NftObject): number => ('rule' in object ? 2 : 'chain' in object ? 1 : 0);
  return canonical.toSorted((a, b) => placeOf(a) - placeOf(b));
}

/** The sets and maps that packets fill. Of these nft 1.0.6 prints the flag `dynamic` in no JSON. */
const filledBy = (expr: unknown): readonly string[] =>
  (Array.isArray(expr) ? expr : []).flatMap((statement) => {
    const { set, map } = objectOf(statement);
    const { op, set: ofSet, map: ofMap } = objectOf(set ?? map);
    return op === 'add' || op === 'update' ? [textOf(ofSet ?? ofMap).replace(/^@/, '')] : [];
  });

/** Its types are not here: of a key that an expression gives, the two forms say them differently. */
function canonicalSet({ name, flags: all, timeout, elem }: Json, isFilled: boolean): Json {
  const listed = (Array.isArray(all) ? all : all === undefined ? [] : [all]).map(textOf);
  const ofTime = listed.includes('timeout') || timeout !== undefined;
  const ofPackets = !ofTime && (isFilled || listed.includes('dynamic')) ? ['dynamic'] : [];
  const flags = [
    ...listed.filter((flag) => flag !== 'timeout' && flag !== 'dynamic'),
    ...(ofTime ? ['timeout'] : []),
    ...ofPackets,
  ].toSorted(compareText);
  const rest = {
    name,
    ...(flags.length === 0 ? {} : { flags }),
    ...(timeout === undefined ? {} : { timeout }),
  };
  // Elements that packets add are of the traffic, not of the configuration.
  if (!Array.isArray(elem) || ofTime || ofPackets.length > 0) return rest;
  const elements = elem.map((one: unknown): unknown => withoutState(one));
  const sorted = elements
    .map((one) => [JSON.stringify(one), one] as const)
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([, one]) => one);
  return { ...rest, elem: sorted };
}

/** nft 1.0.6 has no JSON for statements that change maps, and prints them as in its text. */
const statementsOf = (expr: unknown): readonly unknown[] =>
  (Array.isArray(expr) ? expr : []).flatMap((statement): readonly unknown[] => {
    if (typeof statement === 'string') return readStatements(new Words(wordsOf(statement)));
    return [canonicalStatement(objectOf(statement))];
  });

function canonicalStatement(statement: Json): Json {
  if ('counter' in statement && typeof statement['counter'] === 'object') return { counter: null };
  return 'mangle' in statement ? (unsigned(statement) as Json) : statement;
}

/** nft 1.0.6 prints the modulus 0xffffffff of a hash as -1. */
function unsigned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unsigned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      name === 'mod' && Number(one) < 0 ? Number(one) + 2 ** 32 : unsigned(one),
    ]),
  );
}

/** `{"elem": {"val": …, "counter": …, "expires": …, "comment": …}}`, also as the key of a map's element. */
function withoutState(element: unknown): unknown {
  if (Array.isArray(element)) return element.map((one: unknown) => withoutState(one));
  const { elem } = objectOf(element);
  if (elem === undefined) return element;
  const { counter: _counter, expires: _expires, ...rest } = objectOf(elem);
  const names = Object.keys(rest);
  return names.length === 1 && names[0] === 'val' ? rest['val'] : { elem: rest };
}

import { compareText, type Json, objectOf } from '@sluice/netfilter';
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
    if (kind !== 'table') table.objects.push({ [kind]: canonicalOf(kind, body) });
  }
  const tables: NftTable[] = [];
  const notFollowed: string[] = [];
  for (const [key, { family, name, objects: own }] of [...grouped].toSorted(([a], [b]) => compareText(a, b))) {
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
  family !== 'inet' && /^(?:filter|nat|mangle|raw|security)$/.test(name);

const bodies: ReadonlySet<string> = new Set(['table', 'chain', 'rule', 'set', 'map']);

/** Without what the kernel numbers, packets change, or the sort order of a hash decides. */
function canonicalOf(kind: string, { handle: _handle, family: _family, table: _table, ...body }: Json): Json {
  if (kind === 'rule')
    return {
      ...body,
      expr: Array.isArray(body['expr']) ? body['expr'].map((one) => withoutCounts(objectOf(one))) : [],
    };
  if (kind !== 'set' && kind !== 'map') return body;
  const { elem, ...rest } = body;
  const flags = Array.isArray(body['flags']) ? body['flags'] : [];
  // Elements that packets add are of the traffic, not of the configuration.
  if (!Array.isArray(elem) || flags.includes('dynamic') || flags.includes('timeout')) return rest;
  const elements = elem.map((one: unknown): unknown => withoutState(one));
  const sorted = elements
    .map((one) => [JSON.stringify(one), one] as const)
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([, one]) => one);
  return { ...rest, elem: sorted };
}

function withoutCounts(statement: Json): Json {
  return 'counter' in statement && typeof statement['counter'] === 'object' ? { counter: null } : statement;
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

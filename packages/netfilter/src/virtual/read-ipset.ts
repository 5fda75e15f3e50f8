import type { Family } from '../family.ts';
import { parseAddress } from '../rules/address.ts';
import { parseCidr } from '../rules/cidr.ts';
import { isTransport } from '../rules/cursor.ts';
import { readNumber } from '../rules/parts.ts';
import type { RuleError } from '../rules/rule.ts';
import { findSet, type SetType } from '../rules/sets.ts';
import { type IpSet, printCreate } from './values.ts';

/** A line of an `.ipset` file as a value. */
export type SetLine =
  | { readonly kind: 'create'; readonly set: Omit<IpSet, 'entries'> }
  | { readonly kind: 'add'; readonly name: string; readonly family: Family; readonly entry: string };

/** ipset's own limit for a set is 2^32; a node's memory allows fewer. */
const maxElementsMax = 1 << 24;

/**
 * Reads one line for `ipset restore`. The grammar is closed: only the sets of mode ipvs, with entries of their type and family.
 * @param text without guard and variables
 * @returns the line, with addresses in the spelling of ipset, or why it is not valid
 */
export function readSetLine(text: string): SetLine | RuleError {
  const [verb, name = '', third = ''] = text.split(' ');
  const set = findSet(name);
  if (!set) return { error: `${JSON.stringify(name)} is not a set of mode ipvs` };
  if (verb === 'create') return readCreate(text, { name, family: set.family, type: set.type });
  if (verb !== 'add') return { error: 'the line starts with neither create nor add' };
  const entry = readEntry(third, set.type, set.family);
  if (entry === undefined)
    return { error: `${JSON.stringify(third)} is not a valid entry of an ${set.family} ${set.type} set` };
  return text === `add ${name} ${third}`
    ? { kind: 'add', name, family: set.family, entry }
    : { error: 'trailing data after the entry' };
}

function readCreate(text: string, known: Omit<IpSet, 'entries'>): SetLine | RuleError {
  const size = known.type === 'bitmap:port' ? undefined : / maxelem (\d+)$/.exec(text)?.[1];
  const maxElements = size === undefined ? undefined : readNumber(size, 65_536, maxElementsMax);
  const set = maxElements === undefined ? known : { ...known, maxElements };
  const isPower = maxElements === undefined || Number.isInteger(Math.log2(maxElements));
  return text === printCreate(set) && isPower
    ? { kind: 'create', set }
    : { error: `set ${known.name} is not created by \`${printCreate(known)}\`` };
}

/** An entry in the spelling of `ipset save`; undefined when it is not valid for this type and family. */
function readEntry(text: string, type: SetType, family: Family): string | undefined {
  const [first = '', port, third, ...rest] = text.split(',');
  if (rest.length > 0) return undefined;
  if (type === 'bitmap:port') {
    return port === undefined && readNumber(first, 1, 65_535) !== undefined ? first : undefined;
  }
  const address = addressOf(first, family);
  if (address === undefined || type === 'hash:ip') return port === undefined ? address : undefined;
  const transport = readTransportPort(port ?? '');
  if (transport === undefined) return undefined;
  const head = `${address},${transport}`;
  if (type === 'hash:ip,port') return third === undefined ? head : undefined;
  const last = type === 'hash:ip,port,ip' ? addressOf(third ?? '', family) : networkOf(third ?? '', family);
  return last === undefined ? undefined : `${head},${last}`;
}

function addressOf(text: string, family: Family): string | undefined {
  const address = parseAddress(text);
  return address?.family === family ? address.text : undefined;
}

/** ipset accepts no prefix of 0, and prints a full-length one as an address. */
function networkOf(text: string, family: Family): string | undefined {
  const cidr = parseCidr(text);
  if (!cidr) return addressOf(text, family);
  if (cidr.family !== family || cidr.prefix === 0 || cidr.hostBits) return undefined;
  return cidr.prefix === (family === 'ipv4' ? 32 : 128) ? cidr.text.slice(0, cidr.text.indexOf('/')) : cidr.text;
}

function readTransportPort(text: string): string | undefined {
  const [protocol = '', port = ''] = text.split(':');
  const number = readNumber(port, 1, 65_535);
  return isTransport(protocol) && number !== undefined && text === `${protocol}:${port}` ? text : undefined;
}

import { isInCidr, networkOf } from '../rules/cidr.ts';
import { type Address, parseAddress } from '../rules/address.ts';
import type { TraceFlow } from '../packet/flow.ts';
import type { LiveHook, LiveTest, SourceTest } from './rule.ts';
import { portAt, sourceOf } from './tests.ts';

/** A set of ipset as it was observed. */
export interface LiveSet {
  /** `hash:ip,port` */
  readonly type: string;
  readonly entries: ReadonlySet<string>;
  /** Why entries alone do not say what it matches: a netmask, or an entry that is excepted. */
  readonly unread: string | undefined;
}

/** Reads `ipset save`. */
export function readLiveSets(lines: readonly string[]): ReadonlyMap<string, LiveSet> {
  interface Growing {
    readonly type: string;
    readonly entries: Set<string>;
    unread: string | undefined;
  }
  const sets = new Map<string, Growing>();
  const own = (name: string): Growing => {
    const known = sets.get(name) ?? { type: '', entries: new Set<string>(), unread: undefined };
    sets.set(name, known);
    return known;
  };
  for (const line of lines) {
    const [verb, name = '', third = '', ...options] = line.split(' ');
    if (verb === 'create') {
      const { entries, unread } = own(name);
      const masked = options.find((option) => option === 'netmask' || option === 'bitmask');
      sets.set(name, { type: third, entries, unread: masked ?? unread });
    } else if (verb === 'add') {
      own(name).entries.add(third);
      if (options.includes('nomatch')) own(name).unread = 'nomatch';
    }
  }
  return sets;
}

/** Types whose entries are read part by part. */
const known: ReadonlySet<string> = new Set([
  'hash:ip',
  'hash:net',
  'hash:ip,port',
  'hash:ip,port,ip',
  'hash:ip,port,net',
  'hash:net,port',
  'bitmap:port',
]);

/** @param sides `dst,dst,src` */
export function inSet(set: LiveSet | undefined, sides: readonly string[]): LiveTest {
  // A rule refers to sets that the kernel has: this one was not saved.
  if (!set || set.unread !== undefined) return () => undefined;
  if (!known.has(set.type) || set.type.slice(set.type.indexOf(':') + 1).split(',').length !== sides.length)
    return () => undefined;
  const kinds = set.type.slice(set.type.indexOf(':') + 1).split(',');
  return (flow, hook) => {
    if (set.entries.size === 0) return 0;
    const values = kinds.map((kind, at) => valueOf(kind, sides[at], flow, hook));
    if (values.some((value) => value === undefined)) return undefined;
    if (!kinds.includes('net')) return set.entries.has(values.join(',')) || hasBare(set, values) ? 1 : 0;
    return [...set.entries].some((entry) => isEntry(entry, kinds, values as readonly string[])) ? 1 : 0;
  };
}

/** `10.96.0.1,tcp:443`; a set of ports has no protocol, or any. */
const hasBare = ({ type, entries }: LiveSet, values: readonly (string | undefined)[]): boolean =>
  type === 'bitmap:port' && entries.has((values[0] ?? '').split(':')[1] ?? '');

function isEntry(entry: string, kinds: readonly string[], values: readonly string[]): boolean {
  const found = entry.split(',');
  return kinds.every((kind, at) => {
    const [own = '', value = ''] = [found[at], values[at]];
    if (kind !== 'net') return own === value;
    const network = networkOf(own);
    const address = parseAddress(value);
    return (
      network !== undefined && address !== undefined && network.family === address.family && isInCidr(address, network)
    );
  });
}

function valueOf(kind: string, side: string | undefined, flow: TraceFlow, hook: LiveHook): string | undefined {
  if (kind !== 'port') return side === 'src' ? sourceOf(flow, hook)?.text : flow.destination.text;
  const port = portAt(side === 'dst' ? 'destination' : 'source', flow, hook);
  return port === undefined ? undefined : `${hook.protocol}:${port}`;
}

function isIn(address: Address, text: string): boolean {
  const network = text.includes('/') ? networkOf(text) : undefined;
  return network !== undefined && network.family === address.family && isInCidr(address, network);
}

/** The networks of sources that a set distinguishes for packets to the destination of a flow. */
export function sourcesIn(set: LiveSet | undefined, sides: readonly string[]): SourceTest['networks'] {
  const at = sides.indexOf('src');
  if (!set || at < 0) return () => [];
  return ({ destination, port }, { protocol }) =>
    [...set.entries].flatMap((entry) => {
      const found = entry.split(',');
      const isHere = sides.every(
        (side, index) =>
          side === 'src' ||
          [destination.text, `${protocol}:${port}`].includes(found[index] ?? '') ||
          isIn(destination, found[index] ?? ''),
      );
      return isHere && networkOf(found[at] ?? '') ? [found[at] ?? ''] : [];
    });
}

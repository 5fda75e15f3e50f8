import { getOrInsert } from '../maps.ts';
import { perObject } from '../per-object.ts';
import { type Cidr, isInCidr, networkOf } from '../rules/cidr.ts';
import type { Address } from '../rules/address.ts';
import type { LiveHook, LiveSet, LiveTest, SourceTest } from './rule.ts';
import { portAt, sourceOf } from './tests.ts';

/** Reads `ipset save`. */
export function readLiveSets(lines: readonly string[]): ReadonlyMap<string, LiveSet> {
  interface Growing {
    readonly type: string;
    readonly entries: Set<string>;
    unread: string | undefined;
  }
  const sets = new Map<string, Growing>();
  const own = (name: string): Growing =>
    getOrInsert(sets, name, () => ({ type: '', entries: new Set(), unread: undefined }));
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

/** Types whose entries are read part by part, with the kinds of these. */
const kindsOf: ReadonlyMap<string, readonly string[]> = new Map(
  ['hash:ip', 'hash:net', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net', 'hash:net,port', 'bitmap:port'].map(
    (type) => [type, type.slice(type.indexOf(':') + 1).split(',')],
  ),
);

/** @param find a rule refers to sets that the kernel has: one that was not saved is not known @param sides `dst,dst,src` */
export function inSet(find: SetFinder, sides: readonly string[]): LiveTest {
  return (flow, hook) => {
    const set = find(hook);
    const kinds = kindsOf.get(set?.type ?? '');
    if (!set || set.unread !== undefined || kinds?.length !== sides.length) return undefined;
    if (set.entries.size === 0) return 0;
    let key = '';
    let inNetwork: Address | undefined;
    for (const [at, kind] of kinds.entries()) {
      const isSource = sides[at] === 'src';
      const port = kind === 'port' ? portAt(isSource ? 'source' : 'destination', flow, hook) : undefined;
      const address = isSource ? sourceOf(flow, hook) : flow.destination;
      if (kind === 'port' ? port === undefined : address === undefined) return undefined;
      if (kind === 'net') inNetwork = address;
      else key += `${key === '' ? '' : ','}${kind === 'port' ? `${hook.protocol}:${port}` : address?.text}`;
    }
    if (!inNetwork) return set.entries.has(key) || hasBare(set, key) ? 1 : 0;
    for (const network of networksOf(set).get(key) ?? []) if (isInCidr(inNetwork, network)) return 1;
    return 0;
  };
}

type SetFinder = (hook: LiveHook) => LiveSet | undefined;

/** `10.96.0.1,tcp:443`; a set of ports has no protocol, or any. */
const hasBare = ({ type, entries }: LiveSet, value: string): boolean =>
  type === 'bitmap:port' && entries.has(value.slice(value.indexOf(':') + 1));

/** The networks that entries have, by their other parts. */
const networksOf = perObject(({ type, entries }: LiveSet): ReadonlyMap<string, readonly Cidr[]> => {
  const at = kindsOf.get(type)?.indexOf('net') ?? -1;
  const byRest = new Map<string, Cidr[]>();
  for (const entry of entries) {
    const parts = entry.split(',');
    const network = networkOf(parts[at] ?? '');
    const key = parts.toSpliced(at, 1).join(',');
    const list = byRest.get(key) ?? [];
    if (network) list.push(network);
    byRest.set(key, list);
  }
  return byRest;
});

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

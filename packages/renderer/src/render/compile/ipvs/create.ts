import { compareText, type Family, type IpSet, knownSet, printCreate, setKeys, setName } from '@sluice/netfilter';
import type { IpvsProfile } from '../../model/config.ts';
import type { GuardedLine } from '../lines.ts';

/** kube-proxy's size of a set. */
const elementsMin = 65_536;
/** An upper bound on a node's addresses with node ports: `${host.nodePortAddresses}` is a line for each. */
const hostAddresses = 64;

/**
 * `base/first.ipset`: creates every set, also empty ones.
 * @param entries of all Services; a set that they could overfill on a node is created larger
 */
export function createText(families: readonly Family[], entries: Iterable<GuardedLine>): string {
  const needed = sizes(entries);
  const sets = families.flatMap((family) =>
    setKeys.map((key): Omit<IpSet, 'entries'> => {
      const name = setName(key, family);
      const maxElements = powerOfTwo(needed.get(name) ?? 0);
      return { name, family, type: knownSet(key).type, maxElements };
    }),
  );
  return sets
    .toSorted((a, b) => compareText(a.name, b.name))
    .map((set) => `${printCreate(set)}\n`)
    .join('');
}

/** `base/first.ipvs`: the time-outs of connections; `''` when none is configured. */
export function timeoutsText({ timeouts }: IpvsProfile): string {
  const { tcp, tcpFin, udp } = timeouts;
  return tcp + tcpFin + udp === 0 ? '' : `--set ${tcp} ${tcpFin} ${udp}\n`;
}

function powerOfTwo(count: number): number {
  let size = elementsMin;
  while (size < count) size *= 2;
  return size;
}

interface SetSize {
  /** Lines that any node may have. */
  everywhere: number;
  /** Lines that only one node has. */
  readonly byNode: Map<string, number>;
}

/** The most entries that a node can have, by set. */
function sizes(entries: Iterable<GuardedLine>): ReadonlyMap<string, number> {
  const counted = new Map<string, SetSize>();
  for (const { guard, text } of entries) {
    const name = text.slice(4, text.indexOf(' ', 4));
    const size = counted.get(name) ?? { everywhere: 0, byNode: new Map<string, number>() };
    counted.set(name, size);
    if (guard?.kind === 'node' && !guard.negated)
      for (const node of guard.values) size.byNode.set(node, (size.byNode.get(node) ?? 0) + 1);
    else size.everywhere += text.includes('${host.') ? hostAddresses : 1;
  }
  return new Map(
    [...counted].map(([name, size]) => [name, size.everywhere + Math.max(0, ...size.byNode.values())] as const),
  );
}

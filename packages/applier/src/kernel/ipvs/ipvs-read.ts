import { canonicalAddress, type Family, findSet, ipvsInterface, type IpSet, readSetLine } from '@sluice/netfilter';
import type { Connections } from '../../ports/ipvs/drain.ts';
import { isGenerationName } from '../../ports/ipvs/sets.ts';
import type { ObservedIpvs } from '../../ports/ipvs/values.ts';

/** The timeouts that `ipvsadm -L --timeout` prints: `Timeout (tcp tcpfin udp): 900 120 300`. */
export function readTimeouts(text: string): ObservedIpvs['timeouts'] {
  const match = /:\s*(\d+)\s+(\d+)\s+(\d+)\s*$/m.exec(text);
  return match ? { tcp: Number(match[1]), tcpFin: Number(match[2]), udp: Number(match[3]) } : undefined;
}

const virtualForm = /^(TCP|UDP|SCTP) +(\S+) /;
const realForm = /^ +-> (\S+) +\S+ +\d+ +(\d+) +(\d+)/;

/**
 * The number of connections of each real server from the output of `ipvsadm -L -n`: active and inactive ones.
 * @param of only active ones
 */
export function readConnections(text: string, of?: 'established'): Connections {
  const all = new Map<string, Map<string, number>>();
  let current: Map<string, number> | undefined;
  for (const line of text.split('\n')) {
    const virtual = virtualForm.exec(line);
    const real = realForm.exec(line);
    if (virtual) all.set(`${virtual[2]}/${virtual[1]}`, (current = new Map()));
    else if (real) current?.set(real[1] as string, Number(real[2]) + (of ? 0 : Number(real[3])));
    else if (line.startsWith('FWM')) current = undefined;
  }
  return all;
}

/** Reads the sets of mode ipvs, and those that are being built for it, from the output of `ipset save`. */
export function readSets(text: string): ReadonlyMap<string, IpSet> {
  const sets = new Map<string, Omit<IpSet, 'entries'> & { readonly entries: Set<string> }>();
  for (const line of text.split('\n')) {
    const [verb, name = '', rest = ''] = line.split(' ', 3);
    if (verb === 'create') {
      const set = readCreated(line, name);
      if (set) sets.set(name, { ...set, entries: new Set() });
    } else if (verb === 'add') {
      const read = readSetLine(`add ${name} ${rest}`);
      const entry = 'error' in read || read.kind !== 'add' ? rest : read.entry;
      sets.get(name)?.entries.add(entry);
    }
  }
  return sets;
}

/** The kernel may have enlarged the hash, and newer ones print its seed: neither counts. */
function readCreated(line: string, name: string): Omit<IpSet, 'entries'> | undefined {
  const [, , type = '', ...options] = line.split(' ');
  if (!findSet(name) && !isGenerationName(name)) return undefined;
  const option = (key: string): string | undefined => options[options.indexOf(key) + 1 || options.length];
  const family: Family = type.startsWith('hash:')
    ? option('family') === 'inet6'
      ? 'ipv6'
      : 'ipv4'
    : (findSet(name)?.family ?? 'ipv4');
  const size = type.startsWith('hash:') ? { maxElements: Number(option('maxelem')) } : {};
  return { name, type: type as IpSet['type'], family, ...size };
}

interface IpLink {
  readonly ifname?: string;
  readonly addr_info?: readonly { readonly local?: string; readonly family?: string }[];
}

/** Reads the output of `ip -json addr show`. */
export function readAddresses(text: string): Pick<ObservedIpvs, 'bound' | 'elsewhere'> {
  const links = JSON.parse(text === '' ? '[]' : text) as readonly IpLink[];
  const of = (some: readonly IpLink[]): Record<Family, ReadonlySet<string>> => {
    const all = some.flatMap(({ addr_info: list = [] }) => list);
    const inFamily = (family: string): Set<string> =>
      new Set(
        all.flatMap(({ local, family: its }) =>
          its === family && local !== undefined ? [canonicalAddress(local) ?? local] : [],
        ),
      );
    return { ipv4: inFamily('inet'), ipv6: inFamily('inet6') };
  };
  const ours = links.filter(({ ifname }) => ifname === ipvsInterface);
  return {
    bound: ours.length === 0 ? undefined : of(ours),
    elsewhere: of(links.filter(({ ifname }) => ifname !== ipvsInterface)),
  };
}

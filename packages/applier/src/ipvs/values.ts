import type { Family, IpSet, IpvsState, IpvsTimeouts, VirtualServer } from '@sluice/bundle';

/** What a kernel shows of mode ipvs, whoever made it. */
export interface IpvsSeen {
  /** By `virtualKey`. Those with attributes that no bundle can have (a firewall mark, direct routing) are `strange` instead. */
  readonly servers: ReadonlyMap<string, VirtualServer>;
  /** Keys of virtual servers that are somebody else's for sure: a bundle could not have made them. */
  readonly strange: ReadonlySet<string>;
  /** Sets by name: those of mode ipvs and our generation names; sets of others are not read. */
  readonly sets: ReadonlyMap<string, IpSet>;
  /** What `kube-ipvs0` carries; undefined when there is no such interface. */
  readonly bound: Readonly<Record<Family, ReadonlySet<string>>> | undefined;
  /** Addresses of all other interfaces. */
  readonly elsewhere: Readonly<Record<Family, ReadonlySet<string>>>;
  readonly timeouts: IpvsTimeouts | undefined;
}

/**
 * What of mode ipvs Sluice made, as its state on disk says. Whatever else the kernel shows belongs to keepalived, to another
 * proxy or to a person, whatever its name is.
 */
export interface IpvsOwned {
  /** By `virtualKey`. */
  readonly servers: ReadonlySet<string>;
  readonly sets: ReadonlySet<string>;
  /** `kube-ipvs0` itself. */
  readonly link: boolean;
  readonly addresses: ReadonlySet<string>;
}

/** A real server that gets no new connections and leaves when its old ones are gone. */
export interface Drain {
  /** Its virtual server, by `virtualKey`. */
  readonly server: string;
  /** `10.244.1.5:8080`. */
  readonly real: string;
  /** When it leaves at the latest, in milliseconds since 1970. */
  readonly until: number;
}

/** One batch for one tool: one process. */
export interface IpvsStep {
  readonly kind: 'ipset' | 'ipvsadm' | 'ip';
  /** What the tool reads: `ipset restore`, `ipvsadm -R`, `ip -batch -`. */
  readonly text: string;
  readonly because: string;
}

/**
 * The way from what the kernel shows to what is wanted, in the order in which its parts are carried out. Between `bind` and
 * `weights` the rules change. No state in between leaves a virtual server without a real server that it had or will have.
 */
export interface IpvsPlan {
  /** Sets get what they lack: rules and servers that come later find it. */
  readonly sets: readonly IpvsStep[];
  /** New virtual servers, with their real ones; new real servers; weights that rise. */
  readonly servers: readonly IpvsStep[];
  /** Addresses come to the machine: from here on new virtual servers get packets. */
  readonly bind: readonly IpvsStep[];
  /** Weights that fall, to 0 where a real server drains. */
  readonly weights: readonly IpvsStep[];
  /** What nobody wants any more: addresses, then servers, then entries and sets. */
  readonly remove: readonly IpvsStep[];
  /** What drains when all is done; to be kept on disk. */
  readonly draining: readonly Drain[];
}

/** Nothing of mode ipvs. */
export const nothing: IpvsState = { virtualServers: new Map(), sets: new Map(), addresses: { ipv4: [], ipv6: [] } };
export const nothingOwned: IpvsOwned = { servers: new Set(), sets: new Set(), link: false, addresses: new Set() };

/** What is Sluice's when these states were wanted one after the other. */
export function ownedBy(...states: readonly (IpvsState | undefined)[]): IpvsOwned {
  const all = states.filter((state) => state !== undefined);
  const of = <T>(list: (state: IpvsState) => Iterable<T>): Set<T> => new Set(all.flatMap((state) => [...list(state)]));
  return {
    servers: of((state) => state.virtualServers.keys()),
    sets: of((state) => state.sets.keys()),
    link: all.some(({ addresses }) => addresses.ipv4.length + addresses.ipv6.length > 0),
    addresses: of(({ addresses }) => [...addresses.ipv4, ...addresses.ipv6]),
  };
}

import type { Family, IpSet, IpvsState, IpvsTimeouts, VirtualServer } from '@sluice/netfilter';

/** The observed state of mode ipvs, with everything that other programs made. */
export interface ObservedIpvs {
  /** By `virtualKey`. Those with attributes that no bundle can have (a firewall mark, direct routing) are `foreign` instead. */
  readonly servers: ReadonlyMap<string, VirtualServer>;
  /** Keys of virtual servers that a bundle cannot have made. */
  readonly foreign: ReadonlySet<string>;
  /** Sets by name: those of mode ipvs and our generation names; foreign sets are not read. */
  readonly sets: ReadonlyMap<string, IpSet>;
  /** The addresses of `kube-ipvs0`; undefined if there is no such interface. */
  readonly bound: Readonly<Record<Family, ReadonlySet<string>>> | undefined;
  /** Addresses of all other interfaces. */
  readonly elsewhere: Readonly<Record<Family, ReadonlySet<string>>>;
  readonly timeouts: IpvsTimeouts | undefined;
}

/** Parts of the observed state that are known and need not be read; each is one call of one tool. */
export interface KnownIpvs {
  readonly servers?: Pick<ObservedIpvs, 'servers' | 'foreign'>;
  readonly timeouts?: Pick<ObservedIpvs, 'timeouts'>;
  readonly sets?: Pick<ObservedIpvs, 'sets'>;
  readonly addresses?: Pick<ObservedIpvs, 'bound' | 'elsewhere'>;
}

/**
 * The parts of mode ipvs that Sluice made, according to its state on disk. Everything else belongs to keepalived, to another proxy or to
 * the operator, also under one of our names.
 */
export interface IpvsOwned {
  /** By `virtualKey`. */
  readonly servers: ReadonlySet<string>;
  readonly sets: ReadonlySet<string>;
  /** `kube-ipvs0` itself. */
  readonly link: boolean;
  readonly addresses: ReadonlySet<string>;
}

/** A real server that gets no new connections and is removed when its connections have ended. */
export interface Drain {
  /** Its virtual server, by `virtualKey`. */
  readonly server: string;
  /** `10.244.1.5:8080`. */
  readonly real: string;
  /** When it is removed at the latest, in milliseconds since 1970. */
  readonly until: number;
}

/** The desired state of mode ipvs, besides rules and sysctls. */
export interface NodeIpvs extends IpvsState {
  /** Virtual servers with an address in one of these are never changed or removed. */
  readonly excludeCIDRs: readonly string[];
}

/** The names of a state's servers, sets and addresses, for a journal. */
export interface IpvsNames {
  readonly servers: readonly string[];
  readonly sets: readonly string[];
  readonly addresses: readonly string[];
}

/** One batch for one tool: one process. */
export interface IpvsStep {
  readonly kind: 'ipset' | 'ipvsadm' | 'ip';
  /** The input of the tool: `ipset restore`, `ipvsadm -R`, `ip -batch -`. */
  readonly text: string;
  readonly because: string;
}

/**
 * The steps from the observed to the desired state, in the order in which they are carried out. Between `bind` and `weights` the rules
 * change. In every intermediate state a virtual server keeps at least one of its old or new real servers.
 */
export interface IpvsPlan {
  /** Entries to add to sets, before the rules and servers that need them. */
  readonly sets: readonly IpvsStep[];
  /** New virtual servers with their real servers; new real servers; raised weights. */
  readonly servers: readonly IpvsStep[];
  /** Adds addresses to the interface: from here on new virtual servers get packets. */
  readonly bind: readonly IpvsStep[];
  /** Lowered weights: 0 for a real server that drains. */
  readonly weights: readonly IpvsStep[];
  /** Removes addresses, then servers, then entries and sets. */
  readonly remove: readonly IpvsStep[];
  /** The real servers that drain afterwards; to be kept on disk. */
  readonly draining: readonly Drain[];
}

/** A state without anything of mode ipvs. */
export const emptyIpvs: IpvsState = { virtualServers: new Map(), sets: new Map(), addresses: { ipv4: [], ipv6: [] } };

/** The names of all servers, sets and addresses of a state. */
export function ipvsNames({ virtualServers, sets, addresses }: IpvsState): IpvsNames {
  return {
    servers: [...virtualServers.keys()],
    sets: [...sets.keys()],
    addresses: [...addresses.ipv4, ...addresses.ipv6],
  };
}

/** The union of names. */
export function joinIpvsNames(...all: readonly (IpvsNames | undefined)[]): IpvsNames {
  const of = (key: keyof IpvsNames): readonly string[] => [...new Set(all.flatMap((names) => names?.[key] ?? []))];
  return { servers: of('servers'), sets: of('sets'), addresses: of('addresses') };
}

/** The parts of mode ipvs that are ours, by their names. */
export function ownedNames({ servers, sets, addresses }: IpvsNames): IpvsOwned {
  return {
    servers: new Set(servers),
    sets: new Set(sets),
    link: addresses.length > 0,
    addresses: new Set(addresses),
  };
}

/** The parts of mode ipvs that are ours after these states were applied one after the other. */
export function ownedBy(...states: readonly (IpvsState | undefined)[]): IpvsOwned {
  return ownedNames(joinIpvsNames(...states.map((state) => state && ipvsNames(state))));
}

/** The parts of the observed state that some steps do not touch, so that they are still known. */
export function knownAfter(
  steps: readonly IpvsStep[],
  { servers, foreign, timeouts, sets, bound, elsewhere }: ObservedIpvs,
): KnownIpvs {
  const touches = (kind: IpvsStep['kind']): boolean => steps.some((step) => step.kind === kind);
  const setsTimeouts = steps.some(({ kind, text }) => kind === 'ipvsadm' && /^--set /m.test(text));
  return {
    ...(touches('ipvsadm') ? {} : { servers: { servers, foreign } }),
    // Time-outs that were not read are not known.
    ...(setsTimeouts || !timeouts ? {} : { timeouts: { timeouts } }),
    ...(touches('ipset') ? {} : { sets: { sets } }),
    ...(touches('ip') ? {} : { addresses: { bound, elsewhere } }),
  };
}

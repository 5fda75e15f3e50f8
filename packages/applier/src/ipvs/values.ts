import type { Family, IpSet, IpvsState, IpvsTimeouts, VirtualServer } from '@sluice/bundle';

/** What a kernel shows of mode ipvs, whoever made it. */
export interface ObservedIpvs {
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

/** Parts of what a kernel shows that are known and need not be asked for; each is one question to one tool. */
export interface KnownIpvsParts {
  readonly servers?: Pick<ObservedIpvs, 'servers' | 'strange'>;
  readonly timeouts?: Pick<ObservedIpvs, 'timeouts'>;
  readonly sets?: Pick<ObservedIpvs, 'sets'>;
  readonly addresses?: Pick<ObservedIpvs, 'bound' | 'elsewhere'>;
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

/** What a node runs in mode ipvs besides rules and sysctls. */
export interface NodeIpvs extends IpvsState {
  /** Virtual servers with an address in one of these are never changed or removed. */
  readonly excludeCIDRs: readonly string[];
}

/** Names of what a state has, for a journal. */
export interface IpvsNames {
  readonly servers: readonly string[];
  readonly sets: readonly string[];
  readonly addresses: readonly string[];
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

/** The names of what a state has. */
export function ipvsNames({ virtualServers, sets, addresses }: IpvsState): IpvsNames {
  return {
    servers: [...virtualServers.keys()],
    sets: [...sets.keys()],
    addresses: [...addresses.ipv4, ...addresses.ipv6],
  };
}

/** The names of all, each once. */
export function joinIpvsNames(...all: readonly (IpvsNames | undefined)[]): IpvsNames {
  const of = (key: keyof IpvsNames): readonly string[] => [...new Set(all.flatMap((names) => names?.[key] ?? []))];
  return { servers: of('servers'), sets: of('sets'), addresses: of('addresses') };
}

/** What is Sluice's when it made what has these names. */
export function ownedNames({ servers, sets, addresses }: IpvsNames): IpvsOwned {
  return {
    servers: new Set(servers),
    sets: new Set(sets),
    link: addresses.length > 0,
    addresses: new Set(addresses),
  };
}

/** What is Sluice's when these states were wanted one after the other. */
export function ownedBy(...states: readonly (IpvsState | undefined)[]): IpvsOwned {
  return ownedNames(joinIpvsNames(...states.map((state) => state && ipvsNames(state))));
}

/** What is known of a kernel after some steps: the parts that were seen before and that none of them touches. */
export function knownAfter(
  steps: readonly IpvsStep[],
  { servers, strange, timeouts, sets, bound, elsewhere }: ObservedIpvs,
): KnownIpvsParts {
  const touches = (kind: IpvsStep['kind']): boolean => steps.some((step) => step.kind === kind);
  const setsTimeouts = steps.some(({ kind, text }) => kind === 'ipvsadm' && /^--set /m.test(text));
  return {
    ...(touches('ipvsadm') ? {} : { servers: { servers, strange } }),
    // Not asked for is not known.
    ...(setsTimeouts || !timeouts ? {} : { timeouts: { timeouts } }),
    ...(touches('ipset') ? {} : { sets: { sets } }),
    ...(touches('ip') ? {} : { addresses: { bound, elsewhere } }),
  };
}

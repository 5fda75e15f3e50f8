import { type Family, isRuleError, matchedAddress, matchedPort, readRule, type Rule } from '@sluice/netfilter';

/**
 * The packets that the rules of a Service's file can match. Such a file appends only to its own chains and to dispatch chains, so the
 * matches of its dispatch rules bound what it matches: without the file, other packets are treated the same.
 */
export interface FileMatches {
  /** Destinations that rules match by address and port, `tcp 10.96.0.10 80`. */
  readonly exact: ReadonlySet<string>;
  /** Ports of the node itself, `tcp 30080`. */
  readonly ports: ReadonlySet<string>;
  /** Rules that match neither, so that any packet may match them. */
  readonly wide: readonly Rule[];
  /** Targets of DNAT, under which the filter table sees the packet. Keys like those of `exact` and `ports`. */
  readonly targets: ReadonlySet<string>;
  /** Addresses of which packets to any port match: in mode ipvs every node carries them, in mode nftables they are ClusterIPs. */
  readonly bound: ReadonlySet<string>;
  /** Destinations like those of `exact` that rules match after translation only. */
  readonly inner: ReadonlySet<string>;
}

/** What is being found, by keys like those of `FileMatches`. */
export type FoundMatches = { readonly [K in Exclude<keyof FileMatches, 'wide'>]: Set<string> } & {
  readonly wide: Rule[];
};

export const newMatches = (): FoundMatches => ({
  exact: new Set(),
  ports: new Set(),
  wide: [],
  targets: new Set(),
  bound: new Set(),
  inner: new Set(),
});

const dispatching =
  /^(?:@\S+ )?(-A KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL|IPVS-OUT-FILTER) .*)$/gm;
const translating = / -p (tcp|udp|sctp) (?:.* )?--to-destination (\S+):(\d+)$/gm;
/** The form that `sluice render` writes; other forms are parsed by the grammar. */
const usual =
  /^-A KUBE-[A-Z-]+ -m comment --comment "[^"\\]*" -m (tcp|udp|sctp) -p \1 -d ([0-9.]+) --dport (\d+) -j [A-Z0-9-]+$/;

/** Reads what a rule file matches from its text, without resolving it: rules of any node count. */
export function ruleMatches(text: string, family: Family): FileMatches {
  const found = newMatches();
  for (const [, rule] of text.matchAll(dispatching) as Iterable<[string, string]>) addDispatch(rule, family, found);
  for (const [, protocol, host, port] of text.matchAll(translating) as Iterable<[string, string, string, string]>) {
    found.targets.add(`${protocol} ${host.replaceAll(/[[\]]/g, '')} ${port}`).add(`${protocol} ${port}`);
  }
  return found;
}

function addDispatch(text: string, family: Family, found: FoundMatches): void {
  const [, protocol, host, number] = usual.exec(text) ?? [];
  if (host !== undefined) {
    found.exact.add(`${protocol} ${host} ${number}`);
    return;
  }
  const rule = readRule(text, family);
  // Linking reports lines that cannot be read.
  if (isRuleError(rule)) return;
  const server = rule.matches.find((match) => match.kind === 'ipvs');
  if (server) {
    found.exact.add(`${server.protocol} ${server.address} ${server.port}`);
    return;
  }
  const port = matchedPort(rule);
  const address = matchedAddress(rule);
  if (port !== undefined && address !== undefined) found.exact.add(`${rule.protocol} ${address} ${port}`);
  else if (port !== undefined && isForNode(rule)) found.ports.add(`${rule.protocol} ${port}`);
  else found.wide.push(rule);
}

/** Whether a rule matches only packets to the node itself: KUBE-NODEPORTS is reached by node ports alone. */
function isForNode(rule: Rule): boolean {
  if (rule.destination) return false;
  if (rule.chain === 'KUBE-NODEPORTS') return true;
  return rule.matches.some((match) => match.kind === 'addrtype' && match.side === 'destination');
}

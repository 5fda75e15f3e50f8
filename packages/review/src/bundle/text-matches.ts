import { parseAddress } from '@sluice/netfilter';

/** Destinations to look for in a text before it is parsed. */
export interface DestinationQuery {
  readonly addresses: ReadonlySet<string>;
  /** Ports of the node itself. */
  readonly ports: ReadonlySet<number>;
}

/** Dispatch rules in the form that `sluice render` writes; of other forms only the beginning matches. */
const dispatch = new RegExp(
  '^(?:@\\S+ )?-A KUBE-(?:SERVICES|EXTERNAL-SERVICES|(NODEPORTS)|PROXY-FIREWALL|IPVS-OUT-FILTER) ' +
    '(?:-m comment --comment (?:"[^"\\\\]*"|[\\w/:.-]+) (-m addrtype --dst-type LOCAL )?-m (tcp|udp|sctp) -p \\3 ' +
    '(?:-d ([0-9.]+|[0-9a-f:]+) )?--dport (\\d+) -j [A-Z0-9-]+$)?',
  'gm',
);

/** The destinations that a text may match, at a tenth of the cost of parsing it. Errs towards more only. */
export interface TextMatches {
  /** A line has another form, so that it may match any packet. */
  readonly isWide: boolean;
  readonly addresses: readonly string[];
  /** Ports of the node itself. */
  readonly ports: readonly number[];
}

/** Whether a text with these matches may match packets to some destinations; `false` is certain. */
export function mayMeet({ isWide, addresses, ports }: TextMatches, wanted: DestinationQuery): boolean {
  return (
    isWide || addresses.some((address) => wanted.addresses.has(address)) || ports.some((port) => wanted.ports.has(port))
  );
}

const wide: TextMatches = { isWide: true, addresses: [], ports: [] };

/** What a Service's rules match: a superset of `ruleMatches`. */
export function ruleTextMatches(text: string): TextMatches {
  const addresses: string[] = [];
  const ports: number[] = [];
  dispatch.lastIndex = 0;
  for (let found = dispatch.exec(text); found; found = dispatch.exec(text)) {
    const [, nodePorts, local, , host, port] = found;
    if (port === undefined) return wide;
    if (host !== undefined) addresses.push(canonical(host));
    else if ((nodePorts ?? local) === undefined) return wide;
    else ports.push(Number(port));
  }
  return { isWide: false, addresses, ports };
}

/** The canonical text of an IPv6 address; IPv4 addresses are compared as written, as in `ruleMatches`. */
const canonical = (host: string): string => (host.includes(':') ? (parseAddress(host)?.text ?? host) : host);

/** Entries and virtual servers of node ports: they have a port only, or a variable in place of an address. */
const ofNode = /\$\{|^(?:@\S+ )?add \S+ \d+$/m;
/** Whatever has the form of an address. */
export const addressForm = /(?:\d+\.){3}\d+|[0-9a-f]*:[0-9a-f:]+/g;

/** What an `.ipset` or `.ipvs` file matches: a superset of `virtualMatches`. */
export function lineTextMatches(text: string): TextMatches {
  return ofNode.test(text) ? wide : { isWide: false, addresses: text.match(addressForm) ?? [], ports: [] };
}

import { parseAddress } from '@sluice/bundle';

/** Destinations, as far as a text can be held against them before it is read whole. */
export interface Wanted {
  readonly addresses: ReadonlySet<string>;
  /** Of the node itself. */
  readonly ports: ReadonlySet<number>;
}

/** What dispatches in the words of `sluice render`; of a line in others nothing but its beginning matches. */
const dispatch = new RegExp(
  '^(?:@\\S+ )?-A KUBE-(?:SERVICES|EXTERNAL-SERVICES|(NODEPORTS)|PROXY-FIREWALL|IPVS-OUT-FILTER) ' +
    '(?:-m comment --comment (?:"[^"\\\\]*"|[\\w/:.-]+) (-m addrtype --dst-type LOCAL )?-m (tcp|udp|sctp) -p \\3 ' +
    '(?:-d ([0-9.]+|[0-9a-f:]+) )?--dport (\\d+) -j [A-Z0-9-]+$)?',
  'gm',
);

/** What a text asks for, told at a tenth of what reading it costs. Errs towards more only. */
export interface TextReach {
  /** Some line is in other words, so that it may meet any packet. */
  readonly isWide: boolean;
  readonly addresses: readonly string[];
  /** Of the node itself. */
  readonly ports: readonly number[];
}

/** Whether what has this reach may meet packets to some destinations; no is certain. */
export function mayMeet({ isWide, addresses, ports }: TextReach, wanted: Wanted): boolean {
  return (
    isWide || addresses.some((address) => wanted.addresses.has(address)) || ports.some((port) => wanted.ports.has(port))
  );
}

const wide: TextReach = { isWide: true, addresses: [], ports: [] };

/** The reach of a Service's rules: `reachOf` of a file that this says no to has nothing of the destinations. */
export function rulesReach(text: string): TextReach {
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

/** IPv4 addresses are compared as they are written, as `reachOf` does. */
const canonical = (host: string): string => (host.includes(':') ? (parseAddress(host)?.text ?? host) : host);

/** Entries and virtual servers of the node's own addresses: they name a port, or a variable in place of an address. */
const ofNode = /\$\{|^(?:@\S+ )?add \S+ \d+$/m;
const addressForm = /(?:\d+\.){3}\d+|[0-9a-f]*:[0-9a-f:]+/g;

/** The same of an `.ipset` or `.ipvs` file and `virtualReach`. */
export function linesReach(text: string): TextReach {
  return ofNode.test(text) ? wide : { isWide: false, addresses: text.match(addressForm) ?? [], ports: [] };
}

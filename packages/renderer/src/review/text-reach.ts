import { parseAddress } from '@sluice/bundle';

/** Destinations, as far as a text can be held against them before it is read. */
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

/**
 * Whether rules of a Service's file may meet packets to some destinations, told from its text at a tenth of what reading it costs.
 * Errs towards yes only, so that what it says no to has nothing of `reachOf` for these destinations.
 */
export function rulesMayMeet(text: string, { addresses, ports }: Wanted): boolean {
  dispatch.lastIndex = 0;
  for (let found = dispatch.exec(text); found; found = dispatch.exec(text)) {
    const [, nodePorts, local, , host, port] = found;
    if (port === undefined) return true;
    if (host === undefined) {
      if ((nodePorts ?? local) === undefined || ports.has(Number(port))) return true;
    } else if (addresses.has(canonical(host))) return true;
  }
  return false;
}

/** IPv4 addresses are compared as they are written, as `reachOf` does. */
const canonical = (host: string): string => (host.includes(':') ? (parseAddress(host)?.text ?? host) : host);

/** Entries and virtual servers of the node's own addresses: they name a port, or a variable in place of an address. */
const ofNode = /\$\{|^(?:@\S+ )?add \S+ \d+$/m;
const addressForm = /(?:\d+\.){3}\d+|[0-9a-f]*:[0-9a-f:]+/g;

/** The same of an `.ipset` or `.ipvs` file and `virtualReach`. */
export function virtualMayMeet(text: string, { addresses }: Wanted): boolean {
  if (ofNode.test(text)) return true;
  addressForm.lastIndex = 0;
  for (let found = addressForm.exec(text); found; found = addressForm.exec(text)) {
    if (addresses.has(found[0])) return true;
  }
  return false;
}

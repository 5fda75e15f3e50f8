import { type Family, isRuleError, readRule, type Rule } from '@sluice/bundle';

/**
 * Which packets the rules of a Service's file can meet. Such a file appends only to its own chains and to those that traffic is dispatched
 * from, so what the dispatching rules ask for is all that it can reach: for any other packet the file might as well not be there.
 */
export interface FileReach {
  /** Destinations that rules name whole, `tcp 10.96.0.10 80`. */
  readonly exact: ReadonlySet<string>;
  /** Ports of the node itself, `tcp 30080`. */
  readonly ports: ReadonlySet<string>;
  /** Rules that ask for neither, so that any packet may meet them. */
  readonly wide: readonly Rule[];
  /** Where rules translate to: after that the filter table meets the packet again under this address. Keys like those of `exact` and `ports`. */
  readonly targets: ReadonlySet<string>;
  /** In mode ipvs: addresses that every node carries, so that packets to any of their ports meet rules. */
  readonly bound: ReadonlySet<string>;
  /** Destinations like those of `exact` that are asked for only once a packet is translated. */
  readonly inner: ReadonlySet<string>;
}

const nothing: ReadonlySet<string> = new Set();

const dispatching =
  /^(?:@\S+ )?(-A KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL|IPVS-OUT-FILTER) .*)$/gm;
const translating = / -p (tcp|udp|sctp) (?:.* )?--to-destination (\S+):(\d+)$/gm;
/** As `sluice render` writes them; everything else is read by the grammar. */
const usual =
  /^-A KUBE-[A-Z-]+ -m comment --comment "[^"\\]*" -m (tcp|udp|sctp) -p \1 -d ([0-9.]+) --dport (\d+) -j [A-Z0-9-]+$/;

/** Reads the reach of a rule file from its text, without resolving it: what stands on some node counts. */
export function reachOf(text: string, family: Family): FileReach {
  const found = { exact: new Set<string>(), ports: new Set<string>(), wide: [] as Rule[] };
  const targets = new Set<string>();
  for (const [, rule] of text.matchAll(dispatching) as Iterable<[string, string]>) addDispatch(rule, family, found);
  for (const [, protocol, host, port] of text.matchAll(translating) as Iterable<[string, string, string, string]>) {
    targets.add(`${protocol} ${host.replaceAll(/[[\]]/g, '')} ${port}`).add(`${protocol} ${port}`);
  }
  return { ...found, targets, bound: nothing, inner: nothing };
}

interface Found {
  readonly exact: Set<string>;
  readonly ports: Set<string>;
  readonly wide: Rule[];
}

function addDispatch(text: string, family: Family, found: Found): void {
  const [, protocol, host, number] = usual.exec(text) ?? [];
  if (host !== undefined) {
    found.exact.add(`${protocol} ${host} ${number}`);
    return;
  }
  const rule = readRule(text, family);
  // A line that cannot be read is a problem of linking, which names it.
  if (isRuleError(rule)) return;
  const server = rule.matches.find((match) => match.kind === 'ipvs');
  if (server) {
    found.exact.add(`${server.protocol} ${server.address} ${server.port}`);
    return;
  }
  const port = portOf(rule);
  const address = hostOf(rule, family);
  if (port !== undefined && address !== undefined) found.exact.add(`${rule.protocol} ${address} ${port}`);
  else if (port !== undefined && isForNode(rule)) found.ports.add(`${rule.protocol} ${port}`);
  else found.wide.push(rule);
}

/** The port that a rule asks for. */
export function portOf(rule: Rule): number | undefined {
  for (const match of rule.matches) if ('destinationPort' in match) return match.destinationPort;
  return undefined;
}

/** The one address that a rule asks for, as in `-d 10.96.0.10`. */
export function hostOf({ destination }: Rule, family: Family): string | undefined {
  const whole = family === 'ipv4' ? '/32' : '/128';
  if (!destination || destination.negated || !destination.value.endsWith(whole)) return undefined;
  return destination.value.slice(0, -whole.length);
}

/** Rules that only packets to the node itself can meet: nothing but node ports leads to KUBE-NODEPORTS. */
function isForNode(rule: Rule): boolean {
  if (rule.destination) return false;
  if (rule.chain === 'KUBE-NODEPORTS') return true;
  return rule.matches.some((match) => match.kind === 'addrtype' && match.side === 'destination');
}

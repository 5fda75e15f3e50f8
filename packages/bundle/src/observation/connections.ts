import { canonicalAddress, compareText, printEndpoint, type TransportProtocol } from '@sluice/netfilter';
import { type ConnectionSummary, observationLimits, type ObservedConnections } from './observation.ts';

/** `… src=… dst=… sport=… dport=…` of the request, then the same of the reply. */
const tuples = / src=\S+ dst=(\S+) sport=\d+ dport=(\d+)\b.*? src=(\S+) dst=\S+ sport=(\d+) dport=\d+/;

/** Sums up the output of `conntrack -L` as it comes: no line is kept. Connections that no rule translated are left out. */
export class ConnectionCounter {
  readonly #counts = new Map<string, ObservedConnections & { count: number }>();
  #rest = '';
  #lines = 0;
  #left = 0;

  /** Takes a part of the output; it may end within a line. */
  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#read(line);
  }

  /** @returns what all parts held */
  end(): ConnectionSummary {
    this.take('\n');
    const pairs = [...this.#counts].toSorted(([a], [b]) => compareText(a, b)).map(([, pair]) => pair);
    return { pairs, left: this.#left };
  }

  #read(given: string): void {
    // `conntrack -L -o extended` and /proc/net/nf_conntrack begin with the family: `ipv4     2 tcp      6 …`.
    const line = given.replace(/^ipv[46] +\d+ /, '');
    const protocol = line.slice(0, line.indexOf(' '));
    if (!isProtocol(protocol)) return;
    if (++this.#lines > observationLimits.connectionLinesMax) {
      this.#left++;
      return;
    }
    if (protocol !== 'udp' && !line.includes(' ESTABLISHED ')) return;
    const [, to = '', port = '', from = '', reply = ''] = tuples.exec(line) ?? [];
    if (to === '' || (to === from && port === reply)) return;
    const [frontend, endpoint] = [placeOf(to, port), placeOf(from, reply)];
    const key = `${protocol} ${frontend} ${endpoint}`;
    const known = this.#counts.get(key);
    if (known) known.count++;
    else if (this.#counts.size >= observationLimits.connectionPairsMax) this.#left++;
    else this.#counts.set(key, { protocol, frontend, endpoint, count: 1 });
  }
}

const isProtocol = (text: string): text is TransportProtocol => text === 'tcp' || text === 'udp' || text === 'sctp';

const placeOf = (address: string, port: string): string =>
  printEndpoint(canonicalAddress(address) ?? address, Number(port));

/**
 * @param text of `conntrack -L`, with `-o extended` or `-o id`, too, or of /proc/net/nf_conntrack; of one family or both
 * @returns why nothing is known of connections, as a clause: it is none of these, or not whole
 */
export function connectionsIn(text: string): ConnectionSummary | { readonly why: string } {
  if (text.trim() === '') return { why: 'it is empty: save `conntrack -L` as root' };
  if (!/^(?:ipv[46] +\d+ )?\S+ +\d+ .*src=\S+ dst=\S+/m.test(text))
    return { why: 'it is not what `conntrack -L` prints' };
  if (!text.endsWith('\n')) return { why: 'it may be truncated: its last line has no end' };
  const lines = text.split('\n').filter((line) => / src=\S+ dst=\S+/.test(line)).length;
  // The tool says it on its other output, which a redirection of both has.
  const said = /(\d+) flow entries have been shown/.exec(text)?.[1];
  if (said !== undefined && Number(said) > lines) return { why: `it has ${lines} of ${said} connections` };
  const counter = new ConnectionCounter();
  counter.take(text);
  return counter.end();
}

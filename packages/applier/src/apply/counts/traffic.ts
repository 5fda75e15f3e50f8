import { printEndpoint } from '@sluice/netfilter';
import { LineSplitter } from '../../message.ts';
import { limits } from '../../limits.ts';
import type { ServiceAt } from './frontends.ts';

/** What an endpoint of a Service has now. */
export interface Traffic {
  /** Connections that have not ended. */
  readonly live: number;
  /** Of both directions. Of tracked connections, also of ended ones while the kernel remembers them; of mode ipvs since the server was made. */
  readonly bytes: number;
}

/** By Service, then by endpoint: `10.244.1.5:8080`. */
export type TrafficReading = ReadonlyMap<string, ReadonlyMap<string, Traffic>>;

/** Adds up what several readings say of endpoints. */
export class TrafficSums {
  readonly #services = new Map<string, Map<string, { live: number; bytes: number }>>();
  #size = 0;

  /** More endpoints than the limit are left out: only foreign translations make so many. */
  add(service: string, endpoint: string, live: number, bytes: number): void {
    const own = this.#services.get(service);
    const known = own?.get(endpoint);
    if (known) {
      known.live += live;
      known.bytes += bytes;
      return;
    }
    if (this.#size >= limits.deletedCountsKept) return;
    this.#size += 1;
    if (own) own.set(endpoint, { live, bytes });
    else this.#services.set(service, new Map([[endpoint, { live, bytes }]]));
  }

  get reading(): TrafficReading {
    return this.#services;
  }
}

/**
 * Reads the output of `conntrack -L` of one family, in parts as they come; keeps no line, of which there may be a million. A connection
 * belongs to the Service whose frontend its client asked for, and to the endpoint that replies, where a rule translated it.
 */
export class TrafficReader {
  readonly #serviceAt: ServiceAt;
  readonly #sums: TrafficSums;
  readonly #lines = new LineSplitter((line) => this.#line(line));

  /** @param sums where the connections are added */
  constructor(serviceAt: ServiceAt, sums: TrafficSums) {
    this.#serviceAt = serviceAt;
    this.#sums = sums;
  }

  /** Takes a part of the text; it may end anywhere. */
  take(part: string): void {
    this.#lines.take(part);
  }

  /** `tcp 6 117 ESTABLISHED src=… dst=… sport=… dport=… packets=… bytes=… src=… dst=… sport=… dport=… …`: the reply comes second. */
  #line(line: string): void {
    const protocol = line.slice(0, line.indexOf(' '));
    const source = line.indexOf(' src=');
    const [address, port] = [valueAfter(line, ' dst=', source), valueAfter(line, ' dport=', source)];
    const service = this.#serviceAt(protocol, address, port) ?? this.#serviceAt(protocol, undefined, port);
    if (service === undefined) return;
    const reply = line.lastIndexOf(' src=');
    const [from, fromPort] = [valueAfter(line, ' src=', reply), valueAfter(line, ' sport=', reply)];
    // Untranslated: the port of a node port at another machine, or a frontend that had no endpoint.
    if (from === address && fromPort === port) return;
    const state = line.slice(line.lastIndexOf(' ', source - 1) + 1, source);
    const bytes = Number(valueAfter(line, ' bytes=', source)) + Number(valueAfter(line, ' bytes=', reply));
    this.#sums.add(service, printEndpoint(from, Number(fromPort)), hasEnded.has(state) ? 0 : 1, bytes);
  }
}

/** States of TCP in which no more data comes; the kernel remembers them for up to two minutes. */
const hasEnded: ReadonlySet<string> = new Set(['TIME_WAIT', 'CLOSE']);

/** Empty where there is none: connections without accounting have no bytes. */
function valueAfter(line: string, mark: string, from: number): string {
  const at = line.indexOf(mark, from);
  if (at < 0) return '';
  const start = at + mark.length;
  const end = line.indexOf(' ', start);
  return line.slice(start, end < 0 ? undefined : end);
}

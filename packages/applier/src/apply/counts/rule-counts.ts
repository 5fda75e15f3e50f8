import { calleeOf, choosesEndpoint, destinationOf, isOwnChain, serviceKeyOf } from '@sluice/netfilter';
import { LineSplitter } from '../../message.ts';

/** What a rule counted that translates to an endpoint. nat sees the first packet of a connection alone, so these are new connections. */
export interface RuleCount {
  /** `shop/web:http`; in modes ipvs and nftables `shop/web`. */
  readonly service: string;
  /** The chain of the rule: one of layout `tree` is made again, under another name, when its content changes. */
  readonly chain: string;
  /** The chain that chose the endpoint among others; in mode nftables the frontend, in mode ipvs the virtual server. Left out where several chains lead to one rule. */
  readonly group?: string;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  /** Since the rule was made. */
  readonly connections: number;
}

const counted = /^\[(\d+):\d+\] -A (\S+) /;

/**
 * Reads the output of `iptables-save -c -t nat` in either layout, in parts as they come. Keeps rules that counted something, and which
 * chain leads to which. Comments name Services: they are for people, and here they are for people alone.
 */
export class RuleCountReader {
  /** The chains of Services, each with a chain that leads to it. */
  readonly #callers = new Map<string, string>();
  /** The Service of a chain to which frontends lead. */
  readonly #owners = new Map<string, string>();
  /** Chains that lead to a chain to which others lead, too: it is not known what these counted by way of which. */
  readonly #sharing = new Set<string>();
  readonly #found: Omit<RuleCount, 'service' | 'group'>[] = [];
  readonly #lines = new LineSplitter((line) => this.#line(line));

  /** Takes a part of the text; it may end anywhere. */
  take(part: string): void {
    this.#lines.take(part);
  }

  /** The result, after the whole text. Rules that no Service leads to are left out. */
  done(): readonly RuleCount[] {
    this.take('\n');
    const unknown = new Set([...this.#sharing].map((chain) => this.#groupOf(chain)));
    return this.#found.flatMap((one) => {
      const service = this.#serviceOf(one.chain);
      if (service === undefined) return [];
      const group = this.#groupOf(one.chain);
      return [{ ...one, service, ...(group === undefined || unknown.has(group) ? {} : { group }) }];
    });
  }

  #line(line: string): void {
    if (!line.startsWith('[')) return;
    const [head = '', packets, chain = ''] = counted.exec(line) ?? [];
    if (head === '') return;
    const callee = calleeOf(line);
    if (callee !== undefined) {
      if (!isOwnChain(callee)) return;
      if (isOwnChain(chain)) this.#calls(chain, callee);
      else this.#owners.set(callee, serviceKeyOf(line) ?? '');
    } else if (packets !== '0') {
      const endpoint = destinationOf(line);
      if (endpoint !== undefined) this.#found.push({ chain, endpoint, connections: Number(packets) });
    }
  }

  #calls(chain: string, callee: string): void {
    const other = this.#callers.get(callee);
    if (other !== undefined && other !== chain && !choosesEndpoint(callee)) this.#sharing.add(other).add(chain);
    this.#callers.set(callee, chain);
  }

  #groupOf(chain: string): string | undefined {
    for (let at: string | undefined = chain; at !== undefined; at = this.#callers.get(at))
      if (choosesEndpoint(at)) return at;
    return undefined;
  }

  /** Chains of Services lead to each other without cycles: the kernel refuses these. */
  #serviceOf(chain: string): string | undefined {
    for (let at: string | undefined = chain; at !== undefined; at = this.#callers.get(at)) {
      const owner = this.#owners.get(at);
      if (owner !== undefined && owner !== '') return owner;
    }
    return undefined;
  }
}

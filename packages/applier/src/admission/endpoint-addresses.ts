import {
  canonicalAddress,
  differing,
  emptyTable,
  type Family,
  forbiddenEndpoint,
  type Problem,
  setName,
  type TableProgram,
} from '@sluice/netfilter';
import { familyNames, type NodeState, tableOf } from '../ports/node-state.ts';

/** How many endpoints a refusal names. */
const namedMax = 10;

/**
 * Finds endpoints at addresses that no endpoint may have, whatever the signature: those that Kubernetes refuses for endpoints
 * (`forbiddenEndpoint`), and ClusterIPs of this bundle, which would lead packets of one Service to another. External IPs and addresses of
 * load balancers are allowed: they are often addresses of nodes, and so of endpoints in the host network.
 *
 * Compares each table with the last good one, so that a bundle costs only its changes.
 */
export class EndpointAddresses {
  readonly #tables = { ipv4: new SeenTable(), ipv6: new SeenTable() } as const satisfies Record<Family, SeenTable>;

  /** @returns at most one problem, which names the first few endpoints */
  check(state: NodeState): readonly Problem[] {
    const bad = [
      ...familyNames.flatMap((family) => this.#tables[family].take(tableOf(state, family, 'nat'))),
      ...badServers(state),
    ];
    if (bad.length === 0) return [];
    const named = bad.slice(0, namedMax).join(', ');
    const more = bad.length > namedMax ? `, ${bad.length - namedMax} more` : '';
    const hint = 'Remove these endpoints, or give them the addresses of pods';
    return [{ code: 'ADDRESS_FORBIDDEN', level: 'error', message: `Cannot send packets to ${named}${more}`, hint }];
  }
}

/** IPv4 addresses as numbers: a substring of a rule would keep the whole rule in memory. */
type Key = number | string;

function keyOf(address: string): Key {
  if (address.includes(':')) return Buffer.from(canonicalAddress(address) ?? address).toString();
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

class SeenTable {
  #table: TableProgram = emptyTable;
  /** ClusterIPs, with the number of rules for each. */
  readonly #clusterIPs = new Map<Key, number>();

  take(table: TableProgram): readonly string[] {
    const before = this.#table;
    const changed = before.chains === table.chains ? [] : differing(before.chains, table.chains);
    this.#table = table;
    const counts = new Map<Key, number>();
    const count = (rules: readonly string[] | undefined, by: number): void => {
      for (const key of clusterIPsIn(rules)) counts.set(key, (counts.get(key) ?? 0) + by);
    };
    for (const name of changed) {
      count(before.chains.get(name), -1);
      count(table.chains.get(name), 1);
    }
    const isFresh = this.#add(counts);
    // A new ClusterIP may be the address of an endpoint in an unchanged chain.
    const names = isFresh ? table.chains.keys() : changed;
    const bad = [...names].flatMap((name) => this.#badIn(table.chains.get(name)));
    // A refused table must not be compared with: the same bundle must be refused again.
    if (bad.length > 0) this.#forget();
    return bad;
  }

  #forget(): void {
    this.#table = emptyTable;
    this.#clusterIPs.clear();
  }

  /**
   * Adds to the numbers of rules: all changes of a bundle at once, since a chain that gets another name takes its rules along.
   * @returns whether an address is a ClusterIP now and was none before
   */
  #add(counts: ReadonlyMap<Key, number>): boolean {
    let isFresh = false;
    for (const [key, by] of counts) {
      const old = this.#clusterIPs.get(key) ?? 0;
      if (old + by > 0) this.#clusterIPs.set(key, old + by);
      else this.#clusterIPs.delete(key);
      isFresh ||= old === 0 && by > 0;
    }
    return isFresh;
  }

  #badIn(rules: readonly string[] | undefined): readonly string[] {
    return (rules ?? []).flatMap((rule) => {
      const [, address = ''] = / --to-destination \[?([^\s\]]+?)\]?:\d+(?: |$)/.exec(rule) ?? [];
      if (address === '') return [];
      const why = forbiddenEndpoint(address) ?? (this.#clusterIPs.has(keyOf(address)) ? isClusterIP : undefined);
      return why === undefined ? [] : [`${address} (${why})`];
    });
  }
}

const isClusterIP = 'it is the ClusterIP of a Service';

/** The addresses whose rules lead straight to the endpoints of a Service: those of other frontends lead to `EXT` or `FW`. */
function clusterIPsIn(rules: readonly string[] | undefined): readonly Key[] {
  return (rules ?? []).flatMap((rule) => {
    const [, address] = / -d (\S+?)\/(?:32|128) .*-j (?:KUBE|SLU)-SV[CL]-\S+$/.exec(rule) ?? [];
    return address === undefined ? [] : [keyOf(address)];
  });
}

function badServers({ ipvs }: NodeState): readonly string[] {
  if (!ipvs) return [];
  const clusterIPs = new Set<Key>();
  for (const family of familyNames)
    for (const entry of ipvs.sets.get(setName('KUBE-CLUSTER-IP', family))?.entries ?? [])
      clusterIPs.add(keyOf(entry.slice(0, entry.indexOf(','))));
  const found = new Set<string>();
  for (const { real } of ipvs.virtualServers.values())
    for (const { address } of real.values()) {
      const why = forbiddenEndpoint(address) ?? (clusterIPs.has(keyOf(address)) ? isClusterIP : undefined);
      if (why !== undefined) found.add(`${address} (${why})`);
    }
  return [...found];
}

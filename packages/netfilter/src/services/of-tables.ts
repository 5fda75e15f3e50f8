import { families, type Family, type TableName } from '../family.ts';
import { differing } from '../layered.ts';
import { serviceKeyOf } from '../link/of-service.ts';
import { emptyTable, type TableProgram } from '../link/program.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import { choosesEndpoint, isOfEndpoint, isOfFrontend, withoutTag } from './chain-names.ts';
import type { DescribedFrontend } from './described.ts';
import { describeRules, reachedAt, type RulesAt, rulesByAddress } from './describe-rules.ts';
import { readService, type ServiceOfChain } from './of-chain.ts';
import {
  addressOfEndpoint,
  calleeOf,
  destinationOf,
  frontendOfLinked,
  printFrontend,
  rejects,
  type ServiceFrontend,
} from './of-rule.ts';
import type { ForwardingState, NamedFrontend, ReachedFrontend, ServedFrontend, Services } from './services.ts';

export const tableOf = (state: Pick<ForwardingState, 'families'>, family: Family, table: TableName): TableProgram =>
  state.families[family]?.[table] ?? emptyTable;

/** The chain of a Service. */
interface ServicePlace {
  readonly family: Family;
  readonly chain: string;
}

/** The Services of a state whose rules translate, in layout `flat` or `tree`. */
export class ServicesOfTables implements Services {
  readonly #state: ForwardingState;
  #known: ReadonlyMap<string, ServicePlace> | undefined;
  #byAddress: { [F in Family]?: ReadonlyMap<string, RulesAt> } | undefined;

  constructor(state: ForwardingState) {
    this.#state = state;
  }

  get #places(): ReadonlyMap<string, ServicePlace> {
    this.#known ??= new Map(
      families.flatMap((family) =>
        [...tableOf(this.#state, family, 'nat').chains.keys()]
          .filter(choosesEndpoint)
          .map((chain) => [`${family} ${withoutTag(chain)}`, { family, chain }] as const),
      ),
    );
    return this.#known;
  }

  get count(): number {
    return this.#places.size;
  }

  has(key: string): boolean {
    return this.#places.has(key);
  }

  service(key: string): ServiceOfChain | undefined {
    const place = this.#places.get(key);
    return place && readService(place.family, place.chain, tableOf(this.#state, place.family, 'nat'));
  }

  any(family: Family): ServiceOfChain | undefined {
    for (const [key, place] of this.#places) if (place.family === family) return this.service(key);
    return undefined;
  }

  addresses(): ReadonlySet<string> {
    const found = new Set<string>();
    for (const family of families)
      for (const rules of tableOf(this.#state, family, 'nat').chains.values())
        for (const rule of rules) {
          const endpoint = destinationOf(rule);
          if (endpoint !== undefined) found.add(addressOfEndpoint(endpoint));
        }
    return found;
  }

  *frontends(family: Family, withRejected: boolean, protocol?: TransportProtocol): Generator<NamedFrontend> {
    const met = new Set<string>();
    for (const table of ['nat', 'filter'] as const)
      for (const rules of tableOf(this.#state, family, table).chains.values())
        for (const text of rules) {
          if (protocol !== undefined && !text.includes(` -p ${protocol} `)) continue;
          const frontend = anywhere(frontendIn(text, withRejected));
          if (protocol !== undefined && frontend?.protocol !== protocol) continue;
          const service = frontend && serviceKeyOf(text);
          if (!frontend || service === undefined || met.has(printFrontend(frontend))) continue;
          met.add(printFrontend(frontend));
          yield { ...frontend, service };
        }
  }

  describe(family: Family): readonly DescribedFrontend[] {
    return describeRules(tableOf(this.#state, family, 'filter'), tableOf(this.#state, family, 'nat'));
  }

  at(address: string): readonly ReachedFrontend[] {
    const family = address.includes(':') ? 'ipv6' : 'ipv4';
    const [filter, nat] = [tableOf(this.#state, family, 'filter'), tableOf(this.#state, family, 'nat')];
    this.#byAddress ??= {};
    this.#byAddress[family] ??= rulesByAddress(filter, nat);
    const rules = this.#byAddress[family].get(address);
    return rules ? reachedAt(rules, nat) : [];
  }

  /** In layout `tree` the name of a chain identifies its content and that of all chains below it. */
  *served(protocol: TransportProtocol, unlike: ForwardingState): Generator<ServedFrontend> {
    for (const family of families) {
      const [table, other] = [tableOf(this.#state, family, 'nat'), tableOf(unlike, family, 'nat')];
      if (table.chains === other.chains && !this.#state.ipvs && !unlike.ipvs) continue;
      const isTree = [table, other].every(({ chains }) => chains.has('SLUICE-SERVICES'));
      const names = isTree ? differing(table.chains, other.chains) : table.chains.keys();
      yield* servedIn(family, table, protocol, names);
    }
  }

  *refused(protocol: TransportProtocol, unlike: ForwardingState): Generator<Omit<ServedFrontend, 'endpoint'>> {
    for (const family of families) {
      const [own, other] = [tableOf(this.#state, family, 'filter').chains, tableOf(unlike, family, 'filter').chains];
      if (own === other) continue;
      for (const text of [...own.values()].flat()) {
        if (!rejects(text)) continue;
        const frontend = anywhere(frontendOfLinked(text));
        if (frontend?.protocol !== protocol) continue;
        const { address, port } = frontend;
        yield { family, protocol, address, port };
      }
    }
  }
}

/** The frontend of a rule that leads to the chains of a Service, or that rejects the packets of one without endpoints. */
function frontendIn(text: string, withRejected: boolean): ServiceFrontend | undefined {
  const leads = isOfFrontend(calleeOf(text) ?? '') || (withRejected && rejects(text));
  return leads ? frontendOfLinked(text) : undefined;
}

/** A node port in one network of the node is treated as one at any address. */
const anywhere = (frontend: ServiceFrontend | undefined): ServiceFrontend | undefined =>
  frontend?.address?.includes('/') === true ? { ...frontend, address: undefined } : frontend;

function* servedIn(
  family: Family,
  table: TableProgram,
  protocol: TransportProtocol,
  names: Iterable<string>,
): Generator<ServedFrontend> {
  const endpoints = new EndpointsBelow(table);
  for (const name of names) {
    if (isOfFrontend(name) || isOfEndpoint(name)) continue;
    for (const text of table.chains.get(name) ?? []) {
      if (!text.includes(` -p ${protocol} `)) continue;
      const frontend = anywhere(frontendIn(text, false));
      if (frontend?.protocol !== protocol) continue;
      const { address, port } = frontend;
      for (const endpoint of endpoints.of(calleeOf(text) ?? '')) yield { family, protocol, address, port, endpoint };
    }
  }
}

/** Finds the endpoints that a chain of a Service leads to. */
class EndpointsBelow {
  readonly #table: TableProgram;
  readonly #known = new Map<string, ReadonlySet<string>>();

  constructor(table: TableProgram) {
    this.#table = table;
  }

  of(chain: string): ReadonlySet<string> {
    const known = this.#known.get(chain);
    if (known) return known;
    const found = new Set<string>();
    this.#known.set(chain, found);
    for (const rule of this.#table.chains.get(chain) ?? []) {
      const endpoint = destinationOf(rule);
      if (endpoint !== undefined) found.add(endpoint);
      const target = calleeOf(rule);
      if (target !== undefined) for (const one of this.of(target)) found.add(one);
    }
    return found;
  }
}

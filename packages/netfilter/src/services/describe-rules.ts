import { isOwnChain } from '../link/of-service.ts';
import type { TableProgram } from '../link/program.ts';
import type { Rule, TransportProtocol } from '../rules/rule.ts';
import { isLocal, isOutside, isRestricting } from './chain-names.ts';
import { affinitySeconds, commentOf, endpointOf, matchedAddress, matchedPort, readLinked } from './of-rule.ts';
import { type DescribedFrontend, healthCheck, type TrafficPolicy } from './described.ts';
import type { ReachedFrontend } from './services.ts';

/** What rules outside of the chains of Services say of a frontend. */
interface Dispatch {
  readonly service: string;
  readonly protocol: TransportProtocol;
  readonly address: string | undefined;
  readonly port: number;
  /** The chains of its Service that they lead to. */
  readonly callees: Set<string>;
  kind?: NonNullable<DescribedFrontend['kind']>;
  internalPolicy?: TrafficPolicy;
  externalPolicy?: TrafficPolicy;
}

/** The kinds of addresses in kube-proxy's comments. */
const kinds: Readonly<Record<string, Dispatch['kind']>> = {
  'cluster IP': 'cluster',
  'external IP': 'external',
  'loadbalancer IP': 'load-balancer',
};

/**
 * The frontends in the rules of one family. What only the name of a common chain shows, such as the kind of an address without endpoints,
 * is not shown in layout `tree`.
 */
export function describeRules(filter: TableProgram, nat: TableProgram): readonly DescribedFrontend[] {
  const dispatches = new Map<string, Dispatch>();
  for (const rule of rulesOutside(filter)) addRule(dispatches, rule, true);
  for (const rule of rulesOutside(nat)) addRule(dispatches, rule, false);
  const addresses = Map.groupBy(dispatches.values(), ({ service }) => service);
  const chains = new ServiceChains(nat);
  return [...dispatches.values()].map((dispatch) => {
    const own = (addresses.get(dispatch.service) ?? []).flatMap(({ address }) => address ?? []);
    return describeDispatch(dispatch, chains, new Set(own));
  });
}

/** The rules that match one address, by their table. */
export interface RulesAt {
  readonly filter: readonly string[];
  readonly nat: readonly string[];
}

/** Rules by the one address that they match. Without parsing, for speed: there are some for each frontend. */
export function rulesByAddress(filter: TableProgram, nat: TableProgram): ReadonlyMap<string, RulesAt> {
  const found = new Map<string, { readonly filter: string[]; readonly nat: string[] }>();
  for (const [name, { chains }] of [['filter', filter] as const, ['nat', nat] as const])
    for (const [chain, texts] of chains) {
      if (isOwnChain(chain)) continue;
      for (const text of texts) {
        const address = / -d (\S+)\/(?:32|128) /.exec(text)?.[1];
        if (address === undefined) continue;
        const rules = found.get(address) ?? { filter: [], nat: [] };
        found.set(address, rules);
        rules[name].push(text);
      }
    }
  return found;
}

/** The frontends of one address, from the rules that match it. */
export function reachedAt({ filter, nat }: RulesAt, table: TableProgram): readonly ReachedFrontend[] {
  const dispatches = new Map<string, Dispatch>();
  for (const rule of filter.flatMap((text) => readLinked(text) ?? [])) addRule(dispatches, rule, true);
  for (const rule of nat.flatMap((text) => readLinked(text) ?? [])) addRule(dispatches, rule, false);
  const chains = new ServiceChains(table);
  return [...dispatches.values()]
    .filter(({ kind }) => kind !== 'health-check')
    .map(({ service, protocol, port, callees, externalPolicy, internalPolicy }) => {
      const below = chains.below(callees);
      const policy = externalPolicy ?? externalPolicyOf(below, chains) ?? internalPolicy ?? 'Cluster';
      const serving = policy === 'Local' ? chains.below(below.filter(isLocal)) : below;
      const endpoints = new Set(
        serving.flatMap((chain) => chains.rules(chain)).flatMap((rule) => endpointOf(rule) ?? []),
      );
      return { protocol, port, service, policy, endpoints: endpoints.size };
    });
}

const rulesOutside = ({ chains }: TableProgram): readonly Rule[] =>
  [...chains].flatMap(([chain, texts]) => (isOwnChain(chain) ? [] : texts.flatMap((text) => readLinked(text) ?? [])));

function addRule(dispatches: Map<string, Dispatch>, rule: Rule, isFilter: boolean): void {
  const [address, port, { protocol }] = [matchedAddress(rule), matchedPort(rule), rule];
  if (protocol === undefined || port === undefined) return;
  const [service = '', ...words] = commentOf(rule).split(' ');
  const isHealth = isFilter && (rule.chain === 'KUBE-NODEPORTS' || rule.target?.kind === 'accept');
  const key = [service, protocol, address, port, isHealth].join(' ');
  const kind = isHealth ? 'health-check' : address === undefined ? undefined : kindOf(rule, words.join(' '));
  const guess = address !== undefined && rule.chain === 'KUBE-SERVICES' ? { kind: 'cluster' as const } : {};
  const known = dispatches.get(key) ?? { service, protocol, address, port, callees: new Set(), ...guess };
  dispatches.set(key, known);
  if (kind) known.kind = kind;
  if (rule.target && 'chain' in rule.target) known.callees.add(rule.target.chain);
  Object.assign(known, policyOf(rule, address));
}

const kindOf = ({ chain }: Rule, says: string): Dispatch['kind'] =>
  chain === 'KUBE-PROXY-FIREWALL' ? 'load-balancer' : kinds[says];

/** Without an endpoint at all packets are rejected; without one on the node they are dropped. */
function policyOf(
  { chain, target }: Rule,
  address: string | undefined,
): Pick<Dispatch, 'internalPolicy' | 'externalPolicy'> {
  if (target?.kind === 'drop' && chain === 'KUBE-SERVICES') return { internalPolicy: 'Local' };
  if (target?.kind === 'drop' && chain === 'KUBE-EXTERNAL-SERVICES') return { externalPolicy: 'Local' };
  const callee = target && 'chain' in target ? target.chain : undefined;
  if (callee === undefined || address === undefined || isOutside(callee)) return {};
  return { internalPolicy: isLocal(callee) ? 'Local' : 'Cluster' };
}

/** @param own the addresses of its Service port */
function describeDispatch(dispatch: Dispatch, chains: ServiceChains, own: ReadonlySet<string>): DescribedFrontend {
  const { callees, kind, service, protocol, address, port, internalPolicy } = dispatch;
  if (kind === 'health-check') return { ...healthCheck(port), service };
  const below = chains.below(callees);
  const rules = below.flatMap((chain) => chains.rules(chain));
  const endpoints = new Set(rules.flatMap((rule) => endpointOf(rule) ?? []));
  const externalPolicy = dispatch.externalPolicy ?? externalPolicyOf(below, chains);
  const sources = below
    .filter(isRestricting)
    .flatMap((chain) => chains.rules(chain).flatMap(({ source }) => source ?? []));
  const ranges = sources.flatMap(({ value }) => (own.has(value.replace(/\/(?:32|128)$/, '')) ? [] : value));
  return {
    service,
    protocol,
    address,
    port,
    ...(kind ? { kind } : {}),
    endpoints: [...endpoints].map((text) => ({ text, weight: 1 })),
    ...(internalPolicy ? { internalPolicy } : {}),
    ...(externalPolicy ? { externalPolicy } : {}),
    affinitySeconds: rules.flatMap((rule) => affinitySeconds(rule) ?? []),
    // Packets to an address without endpoints are refused before their source counts.
    ...(endpoints.size > 0 ? { ranges } : {}),
  };
}

/** The chain of external traffic leads to local endpoints with policy Local, and masquerades all sources with Cluster. */
function externalPolicyOf(below: readonly string[], chains: ServiceChains): TrafficPolicy | undefined {
  const outside = below.filter((chain) => isOutside(chain) && !isRestricting(chain));
  if (outside.length === 0) return undefined;
  const rules = outside.flatMap((chain) => chains.rules(chain));
  return rules.some(({ matches }) => matches.some((match) => match.kind === 'addrtype')) ? 'Local' : 'Cluster';
}

/** The rules of Services' chains, each read once. */
class ServiceChains {
  readonly #nat: TableProgram;
  readonly #known = new Map<string, readonly Rule[]>();

  constructor(nat: TableProgram) {
    this.#nat = nat;
  }

  rules(chain: string): readonly Rule[] {
    const known =
      this.#known.get(chain) ?? (this.#nat.chains.get(chain) ?? []).flatMap((text) => readLinked(text) ?? []);
    this.#known.set(chain, known);
    return known;
  }

  /** Some chains, and those that they lead to. */
  below(start: Iterable<string>): readonly string[] {
    const reached = new Set(start);
    for (const chain of reached)
      for (const { target } of this.rules(chain))
        if (target && 'chain' in target && this.#nat.chains.has(target.chain)) reached.add(target.chain);
    return [...reached];
  }
}

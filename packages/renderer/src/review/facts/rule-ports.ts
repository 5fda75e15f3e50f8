import {
  addressOfEndpoint,
  affinitySeconds,
  compareText,
  dispatchChains,
  endpointOf,
  type Family,
  isRuleError,
  matchedAddress,
  matchedPort,
  printEndpoint,
  readRule,
  type Rule,
  type TransportProtocol,
} from '@sluice/netfilter';
import type { RuleFile } from '@sluice/bundle';
import type { AddressFacts } from './facts.ts';
import type { Policy } from '../bundle/header.ts';
import { portKey } from './port-key.ts';

/** A Service port, read from rules alone. A policy is absent where no rule shows it. */
export interface RulePort {
  readonly key: string;
  readonly protocol: TransportProtocol;
  /** `unnamed`: without endpoints rules do not show the kind of an address outside of the cluster. */
  readonly addresses: readonly (Omit<AddressFacts, 'kind'> & { readonly kind: AddressKind })[];
  readonly nodePort: number;
  readonly healthCheckPort: number;
  readonly targets: readonly string[];
  readonly internalPolicy?: Policy;
  readonly externalPolicy?: Policy;
  readonly affinity?: readonly number[];
  readonly sourceRanges: readonly string[];
}

type AddressKind = AddressFacts['kind'] | 'unnamed';

/** The kinds of addresses in kube-proxy's comments. */
const kinds = { 'cluster IP': 'cluster', 'external IP': 'external', 'loadbalancer IP': 'load-balancer' } as const;

interface PortReading {
  readonly protocol: TransportProtocol;
  readonly addresses: Map<string, AddressKind>;
  readonly chains: Set<string>;
  nodePort: number;
  healthCheckPort: number;
  internal?: Policy;
  external?: Policy;
}

/**
 * The ports of a Service file. Rules of one port carry its key in their comments (`shop/web:http cluster IP`); chains are followed
 * from them.
 */
export function portsOf(file: RuleFile, family: Family): readonly RulePort[] {
  const rules = file.sections.flatMap(({ table, rules: list }) =>
    list.flatMap(({ text }) => {
      // The value of a variable is not a fact of the Service.
      const rule = readRule(text.replaceAll(/ (?:! )?-[si] \$\{[^}]*\}\+?/g, ''), family);
      return isRuleError(rule) ? [] : [{ table, rule }];
    }),
  );
  const byChain = Map.groupBy(
    rules.filter(({ table }) => table === 'nat').map(({ rule }) => rule),
    ({ chain }) => chain,
  );
  const readings = new Map<string, PortReading>();
  // Rules with an address first: they give the key of the port that the others belong to.
  const dispatched = Map.groupBy(rules, ({ rule }) => matchedAddress(rule) === undefined);
  for (const { table, rule } of [...(dispatched.get(false) ?? []), ...(dispatched.get(true) ?? [])])
    readDispatch(table, rule, readings);
  return [...readings].toSorted(([a], [b]) => compareText(a, b)).map(([key, reading]) => finish(key, reading, byChain));
}

function readDispatch(table: string, rule: Rule, readings: Map<string, PortReading>): void {
  if (!dispatchChains.filter.has(rule.chain) || rule.protocol === undefined) return;
  const comment = rule.matches.find((match) => match.kind === 'comment')?.text ?? '';
  const [name = '', ...words] = comment.split(' ');
  const says = words.join(' ');
  const isHealth = table === 'filter' && rule.chain === 'KUBE-NODEPORTS';
  const port = matchedPort(rule) ?? 0;
  const host = matchedAddress(rule);
  // A health check belongs to the whole Service; it is kept with the port that its rule names.
  const key =
    [...readings.keys()].find((known) => known.startsWith(`${name} `) && (isHealth || host === undefined)) ??
    portKey(name, port, rule.protocol);
  const known = readings.get(key);
  const reading = known ?? {
    protocol: rule.protocol,
    addresses: new Map(),
    chains: new Set(),
    nodePort: 0,
    healthCheckPort: 0,
  };
  readings.set(key, reading);
  if (isHealth) reading.healthCheckPort = port;
  else if (host === undefined) reading.nodePort = port;
  else addAddress(reading, printEndpoint(host, port), says, rule);
  const target = rule.target && 'chain' in rule.target ? rule.target.chain : undefined;
  if (target !== undefined) reading.chains.add(target);
  policyOf(reading, rule, target);
}

function addAddress(reading: PortReading, text: string, says: string, rule: Rule): void {
  const named = kinds[says as keyof typeof kinds];
  const guessed = rule.chain === 'KUBE-SERVICES' ? 'cluster' : 'unnamed';
  if (named !== undefined || !reading.addresses.has(text)) reading.addresses.set(text, named ?? guessed);
  if (rule.chain === 'KUBE-PROXY-FIREWALL') reading.addresses.set(text, 'load-balancer');
}

/** Without an endpoint at all packets are rejected; without one on the node they are dropped. */
function policyOf(reading: PortReading, { chain, target: verdict }: Rule, target: string | undefined): void {
  const local = verdict?.kind === 'drop' || target?.startsWith('KUBE-SVL-') === true;
  const inside =
    chain === 'KUBE-SERVICES' && target?.startsWith('KUBE-EXT-') !== true && target?.startsWith('KUBE-FW-') !== true;
  if (inside && (local || target !== undefined)) reading.internal = local ? 'Local' : 'Cluster';
  if (chain === 'KUBE-EXTERNAL-SERVICES' && local) reading.external = 'Local';
}

function finish(key: string, reading: PortReading, byChain: ReadonlyMap<string, readonly Rule[]>): RulePort {
  const walked = chainsFrom(reading.chains, byChain);
  const rules = walked.flatMap((chain) => byChain.get(chain) ?? []);
  const external = reading.external ?? externalOf(walked, byChain);
  const affinity = affinityOf(rules);
  return {
    key,
    protocol: reading.protocol,
    addresses: [...reading.addresses]
      .map(([text, kind]) => ({ kind, text }))
      .toSorted((a, b) => compareText(a.text, b.text)),
    nodePort: reading.nodePort,
    healthCheckPort: reading.healthCheckPort,
    targets: [...new Set(rules.flatMap((rule) => endpointOf(rule) ?? []))],
    ...(reading.internal === undefined ? {} : { internalPolicy: reading.internal }),
    ...(external === undefined ? {} : { externalPolicy: external }),
    ...(affinity.length === 0 ? {} : { affinity }),
    sourceRanges: rangesOf(walked, byChain, [...reading.addresses.keys()]),
  };
}

function chainsFrom(start: ReadonlySet<string>, byChain: ReadonlyMap<string, readonly Rule[]>): readonly string[] {
  const walked = new Set(start);
  for (const chain of walked) {
    for (const { target } of byChain.get(chain) ?? []) {
      if (target && 'chain' in target && byChain.has(target.chain)) walked.add(target.chain);
    }
  }
  return [...walked];
}

/** The chain of external traffic leads to local endpoints with policy Local, and masquerades all sources with Cluster. */
function externalOf(chains: readonly string[], byChain: ReadonlyMap<string, readonly Rule[]>): Policy | undefined {
  const outside = chains.filter((chain) => chain.startsWith('KUBE-EXT-'));
  if (outside.length === 0) return undefined;
  const rules = outside.flatMap((chain) => byChain.get(chain) ?? []);
  return rules.some(({ matches }) => matches.some((match) => match.kind === 'addrtype')) ? 'Local' : 'Cluster';
}

function affinityOf(rules: readonly Rule[]): readonly number[] {
  const seconds = rules.flatMap((rule) => affinitySeconds(rule) ?? []);
  return [...new Set(seconds)].toSorted((a, b) => a - b);
}

/** Without the rule that admits a node that has the address itself. */
function rangesOf(
  chains: readonly string[],
  byChain: ReadonlyMap<string, readonly Rule[]>,
  addresses: readonly string[],
): readonly string[] {
  const rules = chains.filter((chain) => chain.startsWith('KUBE-FW-')).flatMap((chain) => byChain.get(chain) ?? []);
  const own = new Set(addresses.map(addressOfEndpoint));
  const ranges = rules.flatMap(({ source }) =>
    source && !own.has(source.value.replace(/\/(?:32|128)$/, '')) ? [source.value] : [],
  );
  return [...new Set(ranges)].toSorted(compareText);
}

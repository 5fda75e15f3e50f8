import type { HookName } from '../packet/flow.ts';
import type { RuleHit } from '../packet/packet.ts';
import type { NftContext, NftSet } from './nft-match.ts';
import { readNftRule } from './nft-rule.ts';
import { Elements, type Json, listOf, objectOf, textOf } from './nft-values.ts';
import type { BaseChain, LiveChain, LiveRule, LiveTable } from './rule.ts';

/** A table as `nft -j list table` prints it. */
export interface ListedTable {
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly name: string;
  readonly objects: readonly Json[];
}

const hooks: Readonly<Record<string, HookName>> = {
  prerouting: 'PREROUTING',
  input: 'INPUT',
  forward: 'FORWARD',
  output: 'OUTPUT',
  postrouting: 'POSTROUTING',
};

const ownTables: ReadonlySet<string> = new Set(['kube-proxy', 'sluice']);

/** Reads a table of nftables for packets of one family. A rule is read when a packet first meets its chain. */
export function readLiveTable({ family, name, objects }: ListedTable): LiveTable {
  const title = `nft ${family} ${name}`;
  const owner = ownTables.has(name) ? 'proxy' : 'foreign';
  const sets = new Map<string, NftSet>();
  const rules = new Map<string, ReadRule[]>();
  const bases: BaseChain[] = [];
  for (const object of objects) {
    const [kind = ''] = Object.keys(object);
    const body = objectOf(object[kind]);
    if (kind === 'set' || kind === 'map') sets.set(textOf(body['name']), setOf(body, kind === 'map'));
    else if (kind === 'rule') {
      const chain = textOf(body['chain']);
      const list = rules.get(chain) ?? [];
      const handle = body['handle'];
      list.push({ statements: listOf(body['expr']), handle: typeof handle === 'number' ? handle : undefined });
      rules.set(chain, list);
    } else if (kind === 'chain') {
      const chain = textOf(body['name']);
      if (!rules.has(chain)) rules.set(chain, []);
      const hook = hooks[textOf(body['hook'])];
      if (hook) bases.push(baseOf(hook, chain, body));
    }
  }
  const context: NftContext = { sets };
  const chains = new Map([...rules].map(([chain, list]) => [chain, chainOf(name, chain, list, context, owner)]));
  const policyHit = ({ chain, type }: BaseChain): RuleHit => ({
    table: 'nftables',
    chain: `${name} ${chain}`,
    rule: `policy drop of ${type === 'nat' ? 'nat chain ' : ''}${title} ${chain}`,
    owner: 'foreign',
  });
  return { title, chains, bases, policyHit };
}

function setOf(body: Json, isMap: boolean): NftSet {
  const flags = listOf(body['flags']).map(textOf);
  const isFilled = flags.includes('dynamic') || flags.includes('timeout');
  return {
    elements: new Elements(listOf(body['elem']), isMap),
    fillsFor: isFilled ? Number(body['timeout'] ?? 0) : undefined,
  };
}

const baseOf = (hook: HookName, chain: string, body: Json): BaseChain => ({
  hook,
  priority: Number(body['prio'] ?? 0),
  type: body['type'] === 'nat' ? 'nat' : 'filter',
  chain,
  policy: body['policy'] === 'drop' ? 'drop' : 'accept',
});

interface ReadRule {
  readonly statements: readonly unknown[];
  readonly handle: number | undefined;
}

function chainOf(
  table: string,
  chain: string,
  rules: readonly ReadRule[],
  context: NftContext,
  owner: 'proxy' | 'foreign',
): LiveChain {
  let read: readonly LiveRule[] | undefined;
  const name = `${table} ${chain}`;
  return {
    name,
    rules: () =>
      (read ??= rules.map(({ statements, handle }) =>
        readNftRule(statements, context, { chain: name, owner }, { chain, handle }),
      )),
  };
}

/** Maps that name an address; node ports of Sluice have one without bits. */
const withAddress = ['service-ips', 'no-endpoint-services', 'svc4', 'svc6', 'none4', 'none6'];
const placeMaps = [...withAddress, 'service-nodeports', 'no-endpoint-nodeports'];

/** Where the maps of kube-proxy's table lead: `tcp 10.96.0.10 80`, and of node ports `tcp  30080`. */
export function placesInTable({ name, objects }: ListedTable): readonly string[] {
  if (!ownTables.has(name)) return [];
  return objects.flatMap((object) => {
    const map = objectOf(object['map']);
    const at = placeMaps.indexOf(textOf(map['name']));
    if (at < 0) return [];
    return new Elements(listOf(map['elem']), true).all.map(({ parts }) =>
      at < withAddress.length
        ? `${parts[1] ?? ''} ${isAnyAddress(parts[0]) ? '' : (parts[0] ?? '')} ${parts[2] ?? ''}`
        : `${parts[0] ?? ''}  ${parts[1] ?? ''}`,
    );
  });
}

const isAnyAddress = (text: string | undefined): boolean => text === '0.0.0.0' || text === '::';

import {
  addressOfEndpoint,
  anyAddress,
  chainOf,
  type Family,
  flatName,
  hasLines,
  isBesideServers,
  isRuleError,
  readFrontendKey,
  readRule,
  type RuleHit,
  serviceKeyOf,
  serviceOfKey,
} from '@sluice/netfilter';
import { serviceOf } from '../bundle/files.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';

/**
 * Finds the Services that own rules and virtual servers.
 * @param paths the files that have them
 * @returns a function from a hit to a Service, `shop/web`; undefined for rules that all Services share
 */
export function ownersOf(
  view: BundleView,
  family: Family,
  paths: readonly string[],
): (hit: RuleHit) => string | undefined {
  const chains = new Map<string, string>();
  const servers: (readonly [path: string, exact: ReadonlySet<string>, ports: ReadonlySet<string>])[] = [];
  for (const path of paths) {
    const { tool } = toolAt(path);
    if (isBesideServers(tool)) continue;
    const text = view.files.get(path)!;
    if (hasLines(tool)) {
      const { exact, ports } = view.memory.reach(path, text, family);
      servers.push([path, exact, ports]);
      continue;
    }
    const file = view.memory.file(path, text);
    if (!('sections' in file)) continue;
    for (const chain of file.sections.flatMap((section) => section.chains))
      chains.set(flatName(chain), serviceOf(path));
  }
  return ({ table, chain, rule }) => {
    const keys = keysIn[table]?.(chain, rule);
    if (!keys) return ownerOfRule(rule, chains);
    const [exact, port] = keys;
    // A Service's own address takes precedence over a node port.
    const owner = servers.find(([, named]) => named.has(exact)) ?? servers.find(([, , ports]) => ports.has(port));
    return owner && serviceOf(owner[0]);
  };
}

type HitKeys = (chain: string, rule: string) => readonly [exact: string, port: string];

/** How a hit outside of the tables of iptables names its frontend, as keys of reach indexes. */
const keysIn: { readonly [Table in RuleHit['table']]?: HitKeys } = { ipvs: serverKeys, nftables: elementKeys };

/** By the rule's own chain or its target; a rule that rejects or drops names its Service in its comment. */
function ownerOfRule(text: string, owners: ReadonlyMap<string, string>): string | undefined {
  const own = owners.get(flatName(chainOf(text)));
  if (own !== undefined) return own;
  const rule = readRule(text, undefined, 'program');
  if (isRuleError(rule)) return undefined;
  if (rule.target && 'chain' in rule.target) return owners.get(flatName(rule.target.chain));
  const key = serviceKeyOf(text);
  return key && serviceOfKey(key);
}

/** `serverKeys` of an element of a frontend: `10.96.0.10 . tcp . 80 : goto n2`, in `tcp4` `10.96.0.10 . 80 . 0 : 10.244.1.5 . 8080`. */
function elementKeys(set: string, element: string): readonly [exact: string, port: string] {
  const own = element.replace(/^(\S+) \. (\d+ \. \d+ : )/, `$1 . ${set.slice(0, -1)} . $2`);
  const [, key] = /^(\S+ \. (?:tcp|udp|sctp) \. \d+)(?: |$)/.exec(own) ?? [];
  if (key === undefined) return ['', ''];
  const { address, protocol, port, family } = readFrontendKey(key);
  return address === anyAddress[family] ? ['', `${protocol} ${port}`] : [`${protocol} ${address} ${port}`, ''];
}

/** The keys of `10.96.0.10:80/TCP` in reach indexes: `tcp 10.96.0.10 80` and `tcp 80`. */
function serverKeys(key: string): readonly [exact: string, port: string] {
  const slash = key.lastIndexOf('/');
  const colon = key.lastIndexOf(':');
  const protocol = key.slice(slash + 1).toLowerCase();
  const port = key.slice(colon + 1, slash);
  return [`${protocol} ${addressOfEndpoint(key.slice(0, slash))} ${port}`, `${protocol} ${port}`];
}

import {
  type BundleFiles,
  type Cidr,
  compareText,
  isInCidr,
  isProblem,
  onlyEndpoints,
  parseAddress,
  parseCidr,
  readNode,
  readPath,
  sourceOf,
  type TextSource,
  valueOf,
} from '@sluice/bundle';
import type { Refusal } from '../rollout/ports.ts';
import type { NodeState } from '../rollout/state.ts';
import { addressOf } from './approved.ts';
import { endpointChanges } from './endpoint-changes.ts';

/** By the text of a node's file: reading one is dear, and few change. */
const known = new WeakMap<TextSource, readonly string[]>();

/** The networks of pods and the addresses of all Nodes of a bundle, sorted: `10.244.1.0/24`, `192.0.2.11`. */
export function networksOf(files: BundleFiles): readonly string[] {
  const found = new Set<string>();
  for (const path of files.keys()) {
    if (!path.startsWith('nodes/') || readPath(path)?.kind !== 'node') continue;
    for (const network of ofNode(path, files)) found.add(network);
  }
  return [...found].toSorted(compareText);
}

function ofNode(path: string, files: BundleFiles): readonly string[] {
  const source = sourceOf(files, path);
  if (!source) return [];
  const before = known.get(source);
  if (before) return before;
  const file = readNode(path, source.text);
  const networks = isProblem(file)
    ? []
    : (['ipv4', 'ipv6'] as const).flatMap((family) =>
        ['address', 'podCIDR'].flatMap((name) => {
          const value = valueOf(file.values, family, name);
          return typeof value === 'string' ? [value] : [];
        }),
      );
  known.set(source, networks);
  return networks;
}

/** How many endpoints a refusal names. */
const namedMax = 5;

/**
 * Holds an update of endpoints against the networks that signers of releases have named: a key for endpoints alone must not send a
 * Service anywhere else, whatever its update says of Nodes.
 * @param from what stands
 * @param networks those of the Nodes of the release; `from` has those of its profile and of the node's config
 * @returns why it must not be taken; undefined when all new endpoints lie within these
 */
export function refuseOutside(from: NodeState, to: NodeState, networks: readonly string[]): Refusal | undefined {
  const isInside = insideOf([...(from.endpointRanges ?? []), ...networks]);
  const outside = endpointChanges(from, to).flatMap(({ service, before, after }) =>
    after.filter((one) => !before.includes(one) && !isInside(addressOf(one))).map((one) => `${one} of ${service}`),
  );
  if (outside.length === 0) return undefined;
  const more = outside.length > namedMax ? `, ${outside.length - namedMax} more` : '';
  const why = `${outside.slice(0, namedMax).join(', ')}${more} is outside of the networks in which its endpoints may be: the clusterCIDR, the Nodes of the release that this node runs, and endpoints.ranges of sluiced.yaml`;
  return { problems: [onlyEndpoints(why)] };
}

function insideOf(networks: readonly string[]): (address: string) => boolean {
  const cidrs: Cidr[] = [];
  const single = new Set<string>();
  for (const text of networks) {
    const cidr = text.includes('/') ? parseCidr(text) : undefined;
    if (cidr) cidrs.push(cidr);
    else single.add(text);
  }
  return (text) => {
    const address = parseAddress(text);
    return address !== undefined && (single.has(text) || cidrs.some((cidr) => isInCidr(address, cidr)));
  };
}

import {
  type BundleFiles,
  isProblem,
  onlyEndpoints,
  readNode,
  readPath,
  sourceOf,
  type TextSource,
  valueOf,
} from '@sluice/bundle';
import { addressOfEndpoint, type Cidr, compareText, isInCidr, parseAddress, parseCidr } from '@sluice/netfilter';
import type { Refusal } from '../../ports/refusal.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { endpointChanges } from './endpoint-changes.ts';

/** By the text of a node's file: parsing is expensive, and few files change. */
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
 * Decides whether an endpoint update may lead to its new endpoints, by the networks of the signed release: a key for endpoints must not send a
 * Service anywhere else, even if its update contains other Nodes.
 * @param from the active state, with the networks of its profile and of the node's config
 * @param networks those of the Nodes of the release
 * @returns a refusal; undefined if all new endpoints are inside
 */
export function refuseOutside(from: NodeState, to: NodeState, networks: readonly string[]): Refusal | undefined {
  const isInside = insideOf([...(from.endpointRanges ?? []), ...networks]);
  const outside = endpointChanges(from, to).flatMap(({ service, before, after }) =>
    after
      .filter((one) => !before.includes(one) && !isInside(addressOfEndpoint(one)))
      .map((one) => `${one} of ${service}`),
  );
  if (outside.length === 0) return undefined;
  const more = outside.length > namedMax ? `, ${outside.length - namedMax} more` : '';
  const why = `${outside.slice(0, namedMax).join(', ')}${more} is outside of the allowed networks: the clusterCIDR, the Nodes of the release that this node runs, and endpoints.ranges of sluiced.yaml`;
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

import { resolveNode, valueOf } from '@sluice/bundle';
import { families, type Family, frontendMark, planeOf, readFrontendKey } from '@sluice/netfilter';
import type { SluicedConfig } from '../config.ts';
import type { BundleFacts, DesiredFacts, Frontend } from '../doctor/facts.ts';
import type { Arrival } from '../inbox/inbox.ts';
import type { RuleStore } from '../kernel/tools.ts';
import { isTree, type NodeState, type ServiceNames } from '../ports/node-state.ts';
import type { NodeRecord } from '../state/record.ts';

/** The bundle directory compared with the journal. */
export function bundleFacts(
  arrival: Arrival,
  { node, bundle: directory }: SluicedConfig,
  record: NodeRecord | undefined,
): BundleFacts {
  if (arrival.kind === 'absent') return { kind: 'absent', directory };
  const refused = (
    problem: { readonly code: string; readonly message: string; readonly hint: string } | undefined,
  ): BundleFacts => ({
    kind: 'refused',
    directory,
    code: problem?.code ?? 'BUNDLE_INVALID',
    message: problem?.message ?? 'it is not a bundle',
    hint: problem?.hint ?? '',
  });
  if (arrival.kind === 'refused') return refused(arrival.problems[0]);
  const resolved = resolveNode(arrival.tree.files, node);
  if (!('version' in resolved)) return refused(resolved[0]);
  const { version } = resolved;
  const active = record?.current;
  if (active?.version === version || active?.partial?.of === version) return { kind: 'same', directory };
  const quarantined = record?.quarantined[version];
  return { kind: 'newer', directory, version, ...(quarantined === undefined ? {} : { quarantined }) };
}

/** The addresses that the bundle gives the node. */
export function nodeAddresses(arrival: Arrival, { node }: SluicedConfig): readonly string[] {
  if (arrival.kind !== 'bundle') return [];
  const resolved = resolveNode(arrival.tree.files, node);
  if (!('version' in resolved)) return [];
  return families.flatMap((family) => {
    const address = valueOf(resolved.nodeFile.values, family, 'address');
    return typeof address === 'string' ? [address] : [];
  });
}

/** What the active generation wants, with the names of Services where something has them. */
export function desiredFacts(state: NodeState, store: RuleStore, addresses: readonly string[]): DesiredFacts {
  const names = state.services ? namesOf(state.services) : new Map<string, string>();
  const frontends = families.flatMap((family) =>
    planeOf(state)
      .read(state)
      .describe(family)
      .map((one): Frontend => {
        const service = one.service ?? names.get(frontendKeyOf(family, one));
        return { ...one, family, ...(service === undefined ? {} : { service }) };
      }),
  );
  return { mode: modeOf(state), store, state, frontends, nodeAddresses: addresses };
}

function modeOf(state: NodeState): DesiredFacts['mode'] {
  if (state.nft) return 'nftables';
  return state.ipvs && !isTree(state) ? 'ipvs' : 'iptables';
}

const frontendKeyOf = (
  family: Family,
  { address, protocol, port }: Pick<Frontend, 'address' | 'protocol' | 'port'>,
): string => `${family} ${address ?? '*'} ${protocol} ${port}`;

/** Services by the keys of their frontends. */
function namesOf(services: ServiceNames): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [service, names] of services)
    for (const name of names) {
      if (!name.startsWith(frontendMark)) continue;
      const { family, address, protocol, port } = readFrontendKey(name.slice(frontendMark.length));
      const isAny = address === '0.0.0.0' || address === '::';
      found.set(frontendKeyOf(family, { address: isAny ? undefined : address, protocol, port }), service);
    }
  return found;
}

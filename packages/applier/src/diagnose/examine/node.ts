import { quarantineFile, readQuarantine, summariseNode, valueOf } from '@sluice/bundle';
import {
  anyAddress,
  families,
  type Family,
  frontendKey,
  frontendMark,
  planeOf,
  type Problem,
  virtualKey,
} from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import type { BundleFacts, DesiredFacts, Frontend, SluicedFacts } from '../doctor/facts.ts';
import type { Arrival } from '../../inbox/inbox.ts';
import { ownersOf } from '../../apply/partial/services.ts';
import type { RuleStore } from '../../kernel/tools.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { NodeRecord } from '../../state/record.ts';

/** What the bundle directory says of this node. */
export interface ArrivedFacts {
  /** Compared with the journal. */
  readonly bundle: BundleFacts;
  /** `SluicedFacts.leftOut` */
  readonly leftOut: SluicedFacts['leftOut'];
  /** The addresses that the bundle gives the node. */
  readonly nodeAddresses: readonly string[];
  /** `SluicedFacts.releaseWarnings` */
  readonly releaseWarnings: readonly Problem[];
}

/** Reads the bundle once, without merging its rules. */
export function arrivedFacts(
  arrival: Arrival,
  { node, bundle: directory }: SluicedConfig,
  record: NodeRecord | undefined,
): ArrivedFacts {
  if (arrival.kind === 'absent') return { ...nothing, bundle: { kind: 'absent', directory } };
  if (arrival.kind === 'refused') return { ...nothing, bundle: refused(directory, arrival.problems[0]) };
  const resolved = summariseNode(arrival.tree.files, node);
  if (!('version' in resolved)) return { ...nothing, bundle: refused(directory, resolved[0]) };
  const leftOut = leftOutOf(arrival, directory);
  const { version, nodeFile } = resolved;
  const releaseWarnings = arrival.alarms ?? [];
  const nodeAddresses = families.flatMap((family) => {
    const address = valueOf(nodeFile.values, family, 'address');
    return typeof address === 'string' ? [address] : [];
  });
  const active = record?.current;
  if (active?.version === version || active?.partial?.of === version)
    return { bundle: { kind: 'same', directory }, nodeAddresses, leftOut, releaseWarnings };
  const quarantined = record?.quarantined[version];
  const bundle = { kind: 'newer', directory, version, ...(quarantined === undefined ? {} : { quarantined }) } as const;
  return { bundle, nodeAddresses, leftOut, releaseWarnings };
}

/** The Services of `quarantine.yaml` in a directory. */
export const leftOutOf = (arrival: Arrival | undefined, directory: string): SluicedFacts['leftOut'] => {
  const text = (arrival?.kind === 'bundle' && arrival.tree.files.get(quarantineFile)) || '';
  return new Map([...readQuarantine(text)].map(([service, codes]) => [service, { directory, codes }]));
};

const nothing: Omit<ArrivedFacts, 'bundle'> = { nodeAddresses: [], leftOut: new Map(), releaseWarnings: [] };

const refused = (directory: string, problem: Problem | undefined): BundleFacts => ({
  kind: 'refused',
  directory,
  code: problem?.code ?? 'BUNDLE_INVALID',
  message: problem?.message ?? 'it is not a bundle',
  hint: problem?.hint ?? '',
});

/** What the active generation wants, with the names of Services where something has them. */
export function desiredFacts(state: NodeState, store: RuleStore, addresses: readonly string[]): DesiredFacts {
  const frontends = families.flatMap((family) =>
    planeOf(state)
      .read(state)
      .describe(family)
      .map((one): Frontend => {
        const service = one.service ?? serviceOfFrontend(state, family, one);
        return { ...one, family, ...(service === undefined ? {} : { service }) };
      }),
  );
  return { mode: planeOf(state).mode, store, state, frontends, nodeAddresses: addresses };
}

/** The Service of a frontend in modes ipvs and nftables, `shop/web`; undefined where the state does not know it. */
export function serviceOfFrontend(
  { nft, services }: Pick<NodeState, 'nft' | 'services'>,
  family: Family,
  frontend: Pick<Frontend, 'address' | 'protocol' | 'port'>,
): string | undefined {
  const at = { ...frontend, address: frontend.address ?? anyAddress[family] };
  return services && ownersOf(services).get(nft ? `${frontendMark}${frontendKey(at)}` : virtualKey(at));
}

import type { IpvsPlan, KnownIpvs } from '../../ports/ipvs/values.ts';
import { type NftState, isFilterOfIpvs } from '@sluice/netfilter';
import { type KnownTable, readTable } from './nftables.ts';
import { type NftTable, planNftInPlace, planNftRemoval } from '../../ports/nftables/plan.ts';
import type { Step } from '../../ports/kernel.ts';
import { familyNames, type NodeState, type OwnedNames } from '../../ports/node-state.ts';
import { planVirtual, type Virtual, type VirtualPorts } from './virtual.ts';

/** What serves packets beside the tables of iptables: virtual servers in mode ipvs, a table of its own in mode nftables. */
export interface OtherPlanes {
  readonly virtual?: Virtual;
  readonly nft?: NftTable;
}

/** What need not be read. */
interface KnownOtherPlanes extends KnownTable {
  readonly ipvs?: KnownIpvs | undefined;
}

/**
 * Reads what is beside the tables, as far as the desired state or `owned` has it, and plans what puts it in order.
 * @param owned names that are ours besides those of the desired state
 * @param expected the state that the table of mode nftables should hold now: the active one, or the desired one where nothing is active
 * @throws KernelError if a tool is not installed or fails
 */
export async function readOtherPlanes(
  desired: NodeState,
  owned: OwnedNames,
  ports: VirtualPorts,
  expected: NftState | undefined,
  known: KnownOtherPlanes = {},
): Promise<OtherPlanes> {
  const virtual = await planVirtual(desired, owned, ports, known.ipvs);
  // A table that is to go is not mended first, and perhaps it is gone.
  const nft = desired.nft || owned.nft ? await readTable(desired.nft && expected, ports.kernel, known) : undefined;
  return { ...(virtual ? { virtual } : {}), ...(nft ? { nft } : {}) };
}

/** Steps around those of the tables. */
interface AroundTables {
  readonly before: readonly Step[];
  /** Once the filter table allows the old and the new nat table, and before nat changes. */
  readonly between: readonly Step[];
  readonly after: readonly Step[];
}

/**
 * The steps beside those of the tables. What serves packets is added before what served them is removed; virtual servers and their
 * addresses as in `plan`, except those of a mode that the node leaves.
 */
export function aroundTables(now: NodeState, desired: NodeState, { virtual, nft }: OtherPlanes): AroundTables {
  const servers = virtual && desired.ipvs ? aroundServers(now, virtual.plan) : { before: [], between: [], after: [] };
  if (!nft) return servers;
  if (!desired.nft) return { ...servers, after: [...servers.after, ...planNftRemoval(nft)] };
  const { first, late } = planNftInPlace(nft, desired.nft);
  return { ...servers, before: [...servers.before, ...first, ...late] };
}

function aroundServers(now: NodeState, { sets, servers, bind, weights, remove }: IpvsPlan): AroundTables {
  const before = [...sets, ...servers];
  const after = [...weights, ...remove];
  if (runsIpvs(now)) return { before: [...before, ...bind], between: [], after };
  return translates(now) ? { before, between: bind, after } : { before, between: [], after: [...bind, ...after] };
}

/** Whether a state has virtual servers. */
export const hasServers = ({ ipvs }: NodeState): boolean => ipvs !== undefined;

/** Whether there are rules of ours that translate packets: until nat changes these serve. */
const translates = ({ families }: NodeState): boolean =>
  familyNames.some((family) => (families[family]?.nat.chains.size ?? 0) > 0);

/** Whether the rules are those of mode ipvs, which has this chain in each family. */
function runsIpvs({ families }: NodeState): boolean {
  return Object.values(families).some(({ filter }) => isFilterOfIpvs(filter));
}

import { type KnownIpvsParts } from '../ipvs/values.ts';
import type { NftState } from '@sluice/netfilter';
import type { IpvsPlan } from '../ipvs/values.ts';
import { type KnownTable, readTable } from './nftables.ts';
import { type NftTable, planNftInPlace, planNftRemoval } from '../nftables/plan.ts';
import type { Step } from '../ports/kernel.ts';
import { familyNames, type NodeState, type OwnedNames } from '../ports/node-state.ts';
import { planVirtual, type Virtual, type VirtualPorts } from './virtual.ts';

/** What serves packets beside the tables of iptables: virtual servers in mode ipvs, a table of its own in mode nftables. */
export interface Beside {
  readonly virtual?: Virtual;
  readonly nft?: NftTable;
}

/** What need not be read. */
export interface KnownBeside extends KnownTable {
  readonly ipvs?: KnownIpvsParts | undefined;
}

/**
 * Reads what is beside the tables, as far as the desired state or `owned` has it, and plans what puts it in order.
 * @param owned names that are ours besides those of the desired state
 * @param expected the state that the table of mode nftables should hold now: the active one, or the desired one where nothing is active
 * @throws KernelError if a tool is not installed or fails
 */
export async function readBeside(
  desired: NodeState,
  owned: OwnedNames,
  ports: VirtualPorts,
  expected: NftState | undefined,
  known: KnownBeside = {},
): Promise<Beside> {
  const virtual = await planVirtual(desired, owned, ports, known.ipvs);
  // A table that is to go is not mended first, and perhaps it is gone.
  const nft = desired.nft || owned.nft ? await readTable(desired.nft && expected, ports.kernel, known) : undefined;
  return { ...(virtual ? { virtual } : {}), ...(nft ? { nft } : {}) };
}

/** Steps before and after those of the tables. */
export interface AroundTables {
  readonly before: readonly Step[];
  readonly after: readonly Step[];
}

/**
 * The steps beside those of the tables. What serves packets is added before what served them is removed; virtual servers and their
 * addresses as in `plan`.
 */
export function aroundTables(now: NodeState, desired: NodeState, { virtual, nft }: Beside): AroundTables {
  const servers = virtual ? aroundServers(now, desired, virtual.plan) : { before: [], after: [] };
  if (!nft) return servers;
  if (!desired.nft) return { before: servers.before, after: [...servers.after, ...planNftRemoval(nft)] };
  const { first, late } = planNftInPlace(nft, desired.nft);
  return { before: [...servers.before, ...first, ...late], after: servers.after };
}

function aroundServers(
  now: NodeState,
  desired: NodeState,
  { sets, servers, bind, weights, remove }: IpvsPlan,
): AroundTables {
  const comes = desired.ipvs !== undefined && !runsIpvs(now);
  return comes
    ? { before: [...sets, ...servers], after: [...bind, ...weights, ...remove] }
    : { before: [...sets, ...servers, ...bind], after: [...weights, ...remove] };
}

/** Whether the rules are those of mode ipvs, which has this chain in each family. */
function runsIpvs({ families }: NodeState): boolean {
  return familyNames.some((family) => families[family]?.filter.chains.has('KUBE-IPVS-FILTER'));
}

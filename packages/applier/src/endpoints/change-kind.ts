import { compareText, differing, tableNames, type TableProgram } from '@sluice/netfilter';
import type { NodeIpvs } from '../ipvs/values.ts';
import type { ChangeKind } from '../ports/journal.ts';
import { familiesOf, type NodeState, tableOf } from '../ports/node-state.ts';
import { isTree } from '../plan/entries.ts';
import { type FirstAndLast, firstAndLastOf } from './first-and-last.ts';
import { overlayEndpoints } from './overlay-endpoints.ts';
import { firstAndLastServersOf } from './first-and-last-servers.ts';

/**
 * Classifies a change. It is an endpoint update if it only adds and removes endpoints of Services that have some, within bounds. Anything
 * else is a release, which needs probation: Services, ports, addresses, policies, sysctls, base chains, jumps.
 * @param from the active state
 * @param replacesAll `OverlayOptions.replacesAll`
 */
export function changeKindOf(from: NodeState, desired: NodeState, replacesAll = false): ChangeKind {
  const isUpdate = sameSettings(from, desired) && sameState(overlayEndpoints(from, desired, { replacesAll }), desired);
  return isUpdate ? 'endpoints' : 'release';
}

/** The kind of a change, and the frontends whose Services get a first endpoint or lose the last one. */
export interface ChangeClass extends Partial<FirstAndLast> {
  readonly changeKind: ChangeKind;
}

/** `changeKindOf` for a whole bundle: there first and last endpoints are an endpoint update, too. */
export function classify(from: NodeState, desired: NodeState, replacesAll = false): ChangeClass {
  if (changeKindOf(from, desired, replacesAll) === 'endpoints') return { changeKind: 'endpoints' };
  const isSameMode = isTree(from) === isTree(desired) && Boolean(from.ipvs) === Boolean(desired.ipvs);
  if (!isSameMode || !sameSettings(from, desired)) return { changeKind: 'release' };
  const edges = desired.ipvs ? firstAndLastServersOf(from, desired, sameState) : firstAndLastOf(from, desired);
  return edges ? { changeKind: 'endpoints', ...edges } : { changeKind: 'release' };
}

function sameSettings(a: NodeState, b: NodeState): boolean {
  const settings = ({ sysctls }: NodeState): string =>
    [...sysctls]
      .map(([key, value]) => `${key} ${value}`)
      .toSorted(compareText)
      .join();
  return (
    familiesOf(a).join() === familiesOf(b).join() &&
    settings(a) === settings(b) &&
    a.endpointRanges?.join() === b.endpointRanges?.join() &&
    a.conntrackHashSize === b.conntrackHashSize
  );
}

function sameState(a: NodeState, b: NodeState): boolean {
  const sameTables = familiesOf(b).every((family) =>
    tableNames.every((table) => sameTable(tableOf(a, family, table), tableOf(b, family, table))),
  );
  return sameTables && (a.ipvs === b.ipvs || spell(a.ipvs) === spell(b.ipvs));
}

function sameTable(a: TableProgram, b: TableProgram): boolean {
  if (a === b) return true;
  if (a.chains.size !== b.chains.size || a.jumps.join('\n') !== b.jumps.join('\n')) return false;
  return differing(a.chains, b.chains).every(
    (name) => a.chains.get(name)?.join('\n') === b.chains.get(name)?.join('\n'),
  );
}

/** Mode ipvs as one text, independent of the order of its maps. */
function spell(ipvs: NodeIpvs | undefined): string {
  if (!ipvs) return '';
  const sets = [...ipvs.sets.values()].map(({ entries, ...set }) => [set, [...entries].toSorted(compareText)]);
  const servers = [...ipvs.virtualServers.values()].map(({ real, ...server }) => [
    server,
    [...real.values()].toSorted(byEndpoint),
  ]);
  return JSON.stringify([sets, servers, ipvs.addresses, ipvs.timeouts, ipvs.excludeCIDRs]);
}

const byEndpoint = (a: { readonly address: string; readonly port: number }, b: typeof a): number =>
  compareText(a.address, b.address) || a.port - b.port;

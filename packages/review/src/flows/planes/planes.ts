import { tablePlane } from './nftables.ts';
import type { FlowPlane, NodeProgram } from './plane.ts';
import { rulesPlane } from './rules.ts';
import { type IpvsState, type Outcome, printScheduler, type VirtualServer } from '@sluice/netfilter';
import { readEntry } from '../../bundle/lines.ts';

/** The parts that a program has: its rules, and in modes ipvs and nftables what chooses endpoints beside them. */
export function planesOf({ ipvs, nft }: NodeProgram): readonly [FlowPlane, ...FlowPlane[]] {
  return [rulesPlane, ...(ipvs ? [serversPlane] : []), ...(nft ? [tablePlane] : [])];
}

/** The part that chooses endpoints. */
export const choosingPlaneOf = (program: NodeProgram): FlowPlane => planesOf(program).at(-1)!;

/** Virtual servers of mode ipvs, and the sets that its rules match. */
const serversPlane: FlowPlane = {
  looksAtFrontendsAlone: false,
  mayHaveScheduler: () => true,
  mayHaveAffinity: () => true,
  schedulersOn: (outcomes, { ipvs }) => outcomes.flatMap((outcome) => serversOn(outcome, ipvs).map(printScheduler)),
  // Persistence.
  secondsOn: (outcome, { ipvs }) => serversOn(outcome, ipvs).flatMap(({ persistence }) => persistence ?? []),
  named: ({ ipvs }) => {
    const entries = [...(ipvs?.sets.values() ?? [])].flatMap((set) => [...set.entries]);
    return { networks: entries.map((entry) => readEntry(entry).source).filter(Boolean), interfaces: [] };
  },
  endpoints: () => ({ masked: new Set(), unmasked: new Set(), special: new Set() }),
};

function serversOn({ path }: Outcome, ipvs: IpvsState | undefined): readonly VirtualServer[] {
  return path.flatMap(({ table, chain }) => (table === 'ipvs' ? (ipvs?.virtualServers.get(chain) ?? []) : []));
}

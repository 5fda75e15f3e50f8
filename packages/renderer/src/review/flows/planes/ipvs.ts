import { type IpvsState, type Outcome, printScheduler, type VirtualServer } from '@sluice/netfilter';
import { readEntry } from '../../bundle/lines.ts';
import type { FlowPlane } from './plane.ts';

/** Virtual servers of mode ipvs, and the sets that its rules match. */
export const serversPlane: FlowPlane = {
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

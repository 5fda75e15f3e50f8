import { compareText, type Family } from '@sluice/netfilter';
import { withoutExternalIPs } from '../../external-ips.ts';
import type { Service } from '../../model.ts';
import { selectForFleet } from '../../select/fleet.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { headerOfFamilies } from '../header.ts';
import { printLines } from '../lines.ts';
import { endpointLines } from './endpoints.ts';
import { frontendLines } from './frontends.ts';
import type { NftPort } from './port.ts';

/** The settings of a profile on which files of Services depend in mode nftables. */
export interface NftServiceOptions {
  readonly externalIPs: boolean;
  readonly families: readonly Family[];
}

/**
 * The file of one Service in mode nftables, for both families and all nodes at once.
 * @returns `''` when the Service has no address of the profile's families
 */
export function nftServiceText(whole: Service, options: NftServiceOptions, fleet: NodeFleet): string {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const families = options.families.toSorted(compareText);
  const ports = families.flatMap((family) => portsOf(service, family, fleet));
  const lines = ports.flatMap((port) => [...frontendLines(port), ...endpointLines(port)]);
  return printLines(headerOfFamilies(service, families), lines);
}

function portsOf(service: Service, family: Family, fleet: NodeFleet): readonly NftPort[] {
  return service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here, family, selection: selectForFleet(port, here, fleet) }] : [];
  });
}

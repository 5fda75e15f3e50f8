import { compareText, type Family } from '@sluice/netfilter';
import { withoutExternalIPs } from '../../model/external-ips.ts';
import type { Node, Service } from '../../model/model.ts';
import { selectForFleet } from '../../select/fleet.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { headerOfFamilies } from '../header.ts';
import { printLines } from '../lines.ts';
import { choicesOf, nftSchedulerOf, weighing } from '../../model/schedulers.ts';
import { endpointLines } from './endpoints.ts';
import { frontendLines } from './frontends.ts';
import type { NftPort } from './port.ts';

/** The settings of a profile on which files of Services depend in mode nftables. */
export interface NftServiceOptions {
  readonly externalIPs: boolean;
  readonly families: readonly Family[];
}

/** The context in which all Services of a bundle are compiled. */
interface NftCompileContext {
  readonly fleet: NodeFleet;
  readonly nodes: ReadonlyMap<string, Node>;
}

/**
 * The file of one Service in mode nftables, for both families and all nodes at once.
 * @returns `''` when the Service has no address of the profile's families
 */
export function nftServiceText(whole: Service, options: NftServiceOptions, context: NftCompileContext): string {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const families = options.families.toSorted(compareText);
  const ports = families.flatMap((family) => portsOf(service, family, context));
  const lines = ports.flatMap((port) => [...frontendLines(port), ...endpointLines(port)]);
  const choices = choicesOf(service, nftSchedulerOf(service));
  return printLines(headerOfFamilies(service, families, weighing(service, context.nodes), choices), lines);
}

function portsOf(service: Service, family: Family, { fleet, nodes }: NftCompileContext): readonly NftPort[] {
  const common = { family, scheduler: nftSchedulerOf(service), weightOf: weighing(service, nodes) };
  return service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here, selection: selectForFleet(port, here, fleet), ...common }] : [];
  });
}

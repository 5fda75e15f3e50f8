import { compareText, type Family, type Scheduler } from '@sluice/netfilter';
import type { GuardedRule, RuleFile } from '@sluice/bundle';
import { withoutExternalIPs } from '../../model/external-ips.ts';
import type { Node, Service } from '../../model/model.ts';
import { selectForFleet } from '../../select/fleet.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { headerOf, headerOfFamilies } from '../header.ts';
import { entryLines, ownIn } from './entries.ts';
import type { GuardedLine } from '../lines.ts';
import type { IpvsPort, NodePortAddress } from './port.ts';
import { serverLines } from './servers.ts';
import { choicesOf, ipvsSchedulerOf, weighing } from '../../model/schedulers.ts';

/** The settings of a profile on which files of Services depend in mode ipvs. */
export interface IpvsServiceOptions {
  readonly externalIPs: boolean;
  readonly families: readonly Family[];
  /** The scheduler of Services without their own. */
  readonly scheduler: Scheduler;
  readonly nodePortAddress: NodePortAddress;
  /** Source ranges also apply to the node itself: from kube-proxy 1.29 on. */
  readonly filtersNode: boolean;
}

/** The context in which all Services of a bundle are compiled. */
interface IpvsCompileContext {
  readonly fleet: NodeFleet;
  readonly nodes: ReadonlyMap<string, Node>;
}

/** The lines of one Service in mode ipvs, for all nodes at once. */
export interface IpvsService {
  readonly header: readonly string[];
  readonly entries: readonly GuardedLine[];
  readonly servers: readonly GuardedLine[];
  /** By family, only where source ranges need rules. */
  readonly rules: ReadonlyMap<Family, RuleFile>;
}

/** @returns undefined when the Service has no address of the profile's families */
export function compileIpvsService(
  whole: Service,
  options: IpvsServiceOptions,
  context: IpvsCompileContext,
): IpvsService | undefined {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const families = options.families.toSorted(compareText);
  const ports = families.flatMap((family) => portsOf(service, family, options, context));
  if (ports.length === 0) return undefined;
  const ownScheduler = service.scheduler && ipvsSchedulerOf(service, options.scheduler);
  const rules = families.flatMap((family) => {
    const guarded = options.filtersNode ? ports.filter((port) => port.family === family).flatMap(outFilterRules) : [];
    if (guarded.length === 0) return [];
    const sections = [{ table: 'filter' as const, chains: [], rules: guarded }];
    return [[family, { header: headerOf(service, family), sections }] as const];
  });
  return {
    header: headerOfFamilies(service, families, weighing(service, context.nodes), choicesOf(service, ownScheduler)),
    entries: ports.flatMap(entryLines),
    servers: ports.flatMap(serverLines),
    rules: new Map(rules),
  };
}

function portsOf(
  service: Service,
  family: Family,
  { scheduler, nodePortAddress }: IpvsServiceOptions,
  { fleet, nodes }: IpvsCompileContext,
): readonly IpvsPort[] {
  const weightOf = weighing(service, nodes);
  const common = { family, fleet, scheduler: ipvsSchedulerOf(service, scheduler), weightOf, nodePortAddress };
  return service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here, selection: selectForFleet(port, here, fleet), ...common }] : [];
  });
}

/** Drops connections of nodes outside the source ranges to the address that the node itself carries. */
function outFilterRules({ port, here }: IpvsPort): readonly GuardedRule[] {
  const ranges = here.loadBalancerSourceRanges;
  if (ranges.length === 0) return [];
  const [guard, protocol] = [ownIn(ranges, true), port.protocol.toLowerCase()];
  return here.loadBalancerIPs.map((address) => ({
    guard,
    text: `-A KUBE-IPVS-OUT-FILTER -s ${address} -m ipvs --vaddr ${address} --vproto ${protocol} --vport ${port.port} -j DROP`,
  }));
}

import type { ServiceFiles, ServiceFilesContext, SummedFiles } from '../service-files.ts';
import { baseFile, printRuleFile, serviceFile } from '@sluice/bundle';
import {
  type Family,
  familyOf,
  type Tool,
  type VirtualTool,
  compareText,
  type IpSet,
  knownSet,
  printCreate,
  setKeys,
  setName,
} from '@sluice/netfilter';
import type { IpvsProfile, Profile } from '../../model/config.ts';
import type { Memo } from '../../model/memo.ts';
import type { Model, Service } from '../../model/model.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { isBefore } from '../../model/version.ts';
import { isPrimaryAlone } from '../../model/nodeports.ts';
import { type Undetected, undetectedNodes } from '../undetected.ts';
import { firstIpvsRules, lastIpvsRules } from './base.ts';
import { printLines, type GuardedLine } from '../lines.ts';
import { compileIpvsService, type IpvsService, type IpvsServiceOptions } from './service.ts';

const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/**
 * The files of a profile of mode ipvs that no Service changes, as path and text: its rules, and the time-outs of connections. Its document
 * and its sysctls are elsewhere.
 */
export function ipvsBaseFiles(model: Model, fleet: NodeFleet) {
  return (profile: Profile, ipvs: IpvsProfile): [path: string, text: string][] => {
    const undetectedIn = (family: Family): Undetected =>
      profile.iptables.masqueradeAll ? [] : undetectedNodes(profile, family, model, fleet);
    const rules = tools
      .filter(([, family]) => profile.families.includes(family))
      .flatMap(([tool, family]): [string, string][] => [
        [baseFile(profile.name, 'first', tool), printRuleFile(firstIpvsRules(profile, family, undetectedIn(family)))],
        [baseFile(profile.name, 'last', tool), printRuleFile(lastIpvsRules(profile, family))],
      ]);
    const timeouts = timeoutsText(ipvs);
    return timeouts === '' ? rules : [...rules, [baseFile(profile.name, 'first', 'ipvs'), timeouts]];
  };
}

/** The files of each Service for a profile of mode ipvs. */
export function ipvsServiceFiles(profile: Profile, context: ServiceFilesContext, memo: Memo): ServiceFiles {
  const compiled = compiler(profile, context, memo);
  return (service) =>
    (compiled(service)?.texts ?? []).map(([tool, text]) => [
      serviceFile(profile.name, service.namespace, service.name, tool),
      text,
    ]);
}

/** `base/first.ipset`: the sets, whose sizes depend on the entries of all Services. */
export function ipvsSetFiles(profile: Profile, context: ServiceFilesContext, memo: Memo): SummedFiles {
  const compiled = compiler(profile, context, memo);
  const sizes = new SetSizes();
  return {
    count: (service, by) => sizes.add(compiled(service)?.entries ?? [], by),
    files: () => [[baseFile(profile.name, 'first', 'ipset'), createText(profile.families, sizes)]],
  };
}

interface CompiledService extends Pick<IpvsService, 'entries'> {
  readonly texts: readonly (readonly [Tool | VirtualTool, string])[];
}

/** Compiles a Service once per set of options: most profiles of mode ipvs have the same. */
function compiler(
  profile: Profile,
  { fleet, nodes }: ServiceFilesContext,
  memo: Memo,
): (service: Service) => CompiledService | undefined {
  const options = profile.ipvs && optionsOf(profile, profile.ipvs);
  const key = `ipvs ${JSON.stringify(options)}`;
  return (service) => options && memo.of(key, service, [fleet], () => compileOne(service, options, { fleet, nodes }));
}

function optionsOf(profile: Profile, { scheduler }: IpvsProfile): IpvsServiceOptions {
  const nodePortAddress = isPrimaryAlone(profile) ? '${node.address}' : '${host.nodePortAddresses}';
  const filtersNode = !isBefore(profile.kubeProxyVersion, '1.29');
  const externalIPs = profile.featureGates.AllowServiceExternalIPs;
  return { externalIPs, families: profile.families, scheduler, nodePortAddress, filtersNode };
}

function compileOne(
  service: Service,
  options: IpvsServiceOptions,
  context: Parameters<typeof compileIpvsService>[2],
): CompiledService | undefined {
  const compiled = compileIpvsService(service, options, context);
  return compiled && { entries: compiled.entries, texts: textsOf(compiled) };
}

function textsOf({ header, entries, servers, rules }: IpvsService): CompiledService['texts'] {
  return [
    ...tools.flatMap(([tool, family]) => {
      const file = rules.get(family);
      return file ? [[tool, printRuleFile(file)] as const] : [];
    }),
    ['ipset', printLines(header, entries)],
    ['ipvs', printLines(header, servers)],
  ];
}

/** kube-proxy's size of a set. */
const elementsMin = 65_536;
/** An upper bound on a node's addresses with node ports: `${host.nodePortAddresses}` is a line for each. */
const hostAddresses = 64;

/**
 * Creates every set, also empty ones.
 * @param sizes a set that a node could overfill is created larger
 */
export function createText(families: readonly Family[], sizes: SetSizes): string {
  const sets = families.flatMap((family) =>
    setKeys.map((key): Omit<IpSet, 'entries'> => {
      const name = setName(key, family);
      const maxElements = powerOfTwo(sizes.of(name));
      return { name, family, type: knownSet(key).type, maxElements };
    }),
  );
  return sets
    .toSorted((a, b) => compareText(a.name, b.name))
    .map((set) => `${printCreate(set)}\n`)
    .join('');
}

/** `base/first.ipvs`: the time-outs of connections; `''` when none is configured. */
export function timeoutsText({ timeouts }: IpvsProfile): string {
  const { tcp, tcpFin, udp } = timeouts;
  return tcp + tcpFin + udp === 0 ? '' : `--set ${tcp} ${tcpFin} ${udp}\n`;
}

function powerOfTwo(count: number): number {
  let size = elementsMin;
  while (size < count) size *= 2;
  return size;
}

interface SetSize {
  /** Lines that any node may have. */
  everywhere: number;
  /** Lines that only one node has. */
  readonly byNode: Map<string, number>;
}

/** The most entries that a node can have, by set, over Services that come and go. */
export class SetSizes {
  readonly #sets = new Map<string, SetSize>();

  /** @param by -1: they go */
  add(entries: Iterable<GuardedLine>, by: 1 | -1 = 1): void {
    for (const { guard, text } of entries) {
      const name = text.slice(4, text.indexOf(' ', 4));
      const size = this.#sets.get(name) ?? { everywhere: 0, byNode: new Map<string, number>() };
      this.#sets.set(name, size);
      if (guard?.kind === 'node' && !guard.negated)
        for (const node of guard.values) size.byNode.set(node, (size.byNode.get(node) ?? 0) + by);
      else size.everywhere += by * (text.includes('${host.') ? hostAddresses : 1);
    }
  }

  /** @param name of a set */
  of(name: string): number {
    const { everywhere = 0, byNode } = this.#sets.get(name) ?? {};
    return everywhere + [...(byNode?.values() ?? [])].reduce((most, count) => Math.max(most, count), 0);
  }
}

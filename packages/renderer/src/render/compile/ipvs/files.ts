import { nodesByName } from '../service-files.ts';
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
import { behaviourOf, servicesOf } from '../../versions/behaviour.ts';
import { isBefore } from '../../model/version.ts';
import { isPrimaryAlone } from '../../model/nodeports.ts';
import { type Undetected, undetectedNodes } from '../undetected.ts';
import { firstIpvsRules, lastIpvsRules } from './base.ts';
import { printLines, type GuardedLine } from '../lines.ts';
import { compileIpvsService, type IpvsService, type IpvsServiceOptions } from './service.ts';

const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The files of a profile of mode ipvs except its document and its sysctls, as path and text. */
type IpvsFiles = (profile: Profile, ipvs: IpvsProfile) => readonly [path: string, text: string][];

/** Compiles Services once per set of options: most profiles of mode ipvs have the same. */
export function ipvsCompiler(model: Model, fleet: NodeFleet, memo: Memo): IpvsFiles {
  const nodes = nodesByName(model.nodes);
  const done = new Map<string, readonly CompiledService[]>();
  return (profile, ipvs) => {
    const options = optionsOf(profile, ipvs);
    const key = JSON.stringify(options);
    const keyOfAll = `${behaviourOf(profile.kubeProxyVersion)} ${key}`;
    const once = (service: Service): CompiledService | undefined =>
      memo.of(`ipvs ${key}`, service, [fleet], () => compileOne(service, options, { fleet, nodes }));
    const services = done.get(keyOfAll) ?? servicesOf(model, profile).flatMap((service) => once(service) ?? []);
    done.set(keyOfAll, services);
    return [
      ...baseFiles(profile, ipvs, services, (family) =>
        profile.iptables.masqueradeAll ? [] : undetectedNodes(profile, family, model, fleet),
      ),
      ...services.flatMap((compiled) => filesOf(profile, compiled)),
    ];
  };
}

interface CompiledService {
  readonly service: Service;
  readonly compiled: IpvsService;
  readonly texts: readonly (readonly [Tool | VirtualTool, string])[];
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
  return compiled && { service, compiled, texts: textsOf(compiled) };
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

function filesOf({ name }: Profile, { service, texts }: CompiledService): [string, string][] {
  return texts.map(([tool, text]) => [serviceFile(name, service.namespace, service.name, tool), text]);
}

function baseFiles(
  profile: Profile,
  ipvs: IpvsProfile,
  services: readonly CompiledService[],
  undetectedIn: (family: Family) => Undetected,
): [string, string][] {
  const rules = tools
    .filter(([, family]) => profile.families.includes(family))
    .flatMap(([tool, family]): [string, string][] => [
      [baseFile(profile.name, 'first', tool), printRuleFile(firstIpvsRules(profile, family, undetectedIn(family)))],
      [baseFile(profile.name, 'last', tool), printRuleFile(lastIpvsRules(profile, family))],
    ]);
  const entries = services.flatMap(({ compiled }) => compiled.entries);
  const timeouts = timeoutsText(ipvs);
  return [
    ...rules,
    [baseFile(profile.name, 'first', 'ipset'), createText(profile.families, entries)],
    ...(timeouts === '' ? [] : ([[baseFile(profile.name, 'first', 'ipvs'), timeouts]] as [string, string][])),
  ];
}

/** kube-proxy's size of a set. */
const elementsMin = 65_536;
/** An upper bound on a node's addresses with node ports: `${host.nodePortAddresses}` is a line for each. */
const hostAddresses = 64;

/**
 * `base/first.ipset`: creates every set, also empty ones.
 * @param entries of all Services; a set that they could overfill on a node is created larger
 */
export function createText(families: readonly Family[], entries: Iterable<GuardedLine>): string {
  const needed = sizes(entries);
  const sets = families.flatMap((family) =>
    setKeys.map((key): Omit<IpSet, 'entries'> => {
      const name = setName(key, family);
      const maxElements = powerOfTwo(needed.get(name) ?? 0);
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

/** The most entries that a node can have, by set. */
function sizes(entries: Iterable<GuardedLine>): ReadonlyMap<string, number> {
  const counted = new Map<string, SetSize>();
  for (const { guard, text } of entries) {
    const name = text.slice(4, text.indexOf(' ', 4));
    const size = counted.get(name) ?? { everywhere: 0, byNode: new Map<string, number>() };
    counted.set(name, size);
    if (guard?.kind === 'node' && !guard.negated)
      for (const node of guard.values) size.byNode.set(node, (size.byNode.get(node) ?? 0) + 1);
    else size.everywhere += text.includes('${host.') ? hostAddresses : 1;
  }
  return new Map(
    [...counted].map(([name, size]) => [name, size.everywhere + Math.max(0, ...size.byNode.values())] as const),
  );
}

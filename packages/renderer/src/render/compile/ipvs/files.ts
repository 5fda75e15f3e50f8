import { nodesByName } from '../service-files.ts';
import { baseFile, printRuleFile, serviceFile } from '@sluice/bundle';
import { type Family, familyOf, type Tool, type VirtualTool } from '@sluice/netfilter';
import type { IpvsProfile, Profile } from '../../model/config.ts';
import type { Memo } from '../../model/memo.ts';
import type { Model, Service } from '../../model/model.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { eraOf, servicesOf } from '../../versions/eras.ts';
import { isBefore } from '../../model/version.ts';
import { isPrimaryAlone } from '../../model/nodeports.ts';
import { type Undetected, undetectedNodes } from '../undetected.ts';
import { firstIpvsRules, lastIpvsRules } from './base.ts';
import { createText, timeoutsText } from './create.ts';
import { printLines } from '../lines.ts';
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
    const keyOfAll = `${eraOf(profile.kubeProxyVersion)} ${key}`;
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

import { serviceFile, printRuleFile } from '@sluice/bundle';
import { type Family, familyOf, perObject, type Tool } from '@sluice/netfilter';
import type { Profile } from '../config.ts';
import type { Memo } from '../memo.ts';
import type { Node, Service } from '../model.ts';
import { type CompileContext, compileService, type ServiceOptions } from './iptables.ts';
import { type NftServiceOptions, nftServiceText } from './nftables/service.ts';

/** What all Services of a bundle are compiled with. A change of a node is another fleet. */
export interface ServiceFilesContext extends CompileContext {
  readonly nodes: ReadonlyMap<string, Node>;
}

/** Nodes by their names. */
export const nodesByName = perObject(
  (nodes: readonly Node[]): ReadonlyMap<string, Node> => new Map(nodes.map((node) => [node.name, node])),
);

/** The files of one Service, as path and text; none where it has no rules. */
export type ServiceFiles = (service: Service) => readonly (readonly [path: string, text: string])[];

const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/**
 * The files of each Service for a profile: they depend on the Service, the profile and the nodes only. Services are compiled once per
 * set of options: most profiles have the same.
 * @returns undefined for mode ipvs, where the size of sets depends on all Services
 */
export function serviceFilesOf(profile: Profile, context: ServiceFilesContext, memo: Memo): ServiceFiles | undefined {
  if (profile.ipvs) return undefined;
  return profile.nftables ? nftServiceFiles(profile, context, memo) : iptablesServiceFiles(profile, context, memo);
}

function iptablesServiceFiles(profile: Profile, context: CompileContext, memo: Memo): ServiceFiles {
  const options: ServiceOptions = {
    externalIPs: profile.featureGates.AllowServiceExternalIPs,
    masqueradeAll: profile.iptables.masqueradeAll,
    detectLocalMode: profile.detectLocalMode,
  };
  const texts = tools
    .filter(([, family]) => profile.families.includes(family))
    .map(([tool, family]) => ({ tool, family, key: `${family} ${JSON.stringify(options)}` }));
  return (service) =>
    texts.flatMap(({ tool, family, key }) => {
      const text = memo.of(key, service, [context.fleet], () => textOf(service, family, options, context));
      return text === undefined ? [] : [[pathOf(profile, service, tool), text] as const];
    });
}

function textOf(
  service: Service,
  family: Family,
  options: ServiceOptions,
  context: CompileContext,
): string | undefined {
  const file = compileService(service, family, options, context);
  return file && printRuleFile(file);
}

/** The same for a profile of mode nftables. */
function nftServiceFiles(profile: Profile, { fleet, nodes }: ServiceFilesContext, memo: Memo): ServiceFiles {
  const options: NftServiceOptions = {
    externalIPs: profile.featureGates.AllowServiceExternalIPs,
    families: profile.families,
  };
  const key = `nft ${JSON.stringify(options)}`;
  return (service) => {
    const text = memo.of(key, service, [fleet], () => nftServiceText(service, options, { fleet, nodes }));
    return text === '' ? [] : [[pathOf(profile, service, 'nft'), text]];
  };
}

function pathOf(profile: Profile, { namespace, name }: Service, tool: Tool | 'nft'): string {
  return serviceFile(profile.name, namespace, name, tool);
}

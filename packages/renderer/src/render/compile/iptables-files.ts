import { baseFile, printRuleFile, serviceFile } from '@sluice/bundle';
import { type Family, familyOf, type Tool } from '@sluice/netfilter';
import type { Profile } from '../model/config.ts';
import type { Memo } from '../model/memo.ts';
import type { Service } from '../model/model.ts';
import { firstRules, lastRules } from './base.ts';
import { type CompileContext, compileService, type ServiceOptions } from './iptables.ts';
import type { ServiceFiles } from './service-files.ts';

const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The base rules of a profile of mode iptables. */
export function iptablesBaseFiles(profile: Profile): [string, string][] {
  const files: [string, string][] = [];
  for (const [tool, family] of tools) {
    if (!profile.families.includes(family)) continue;
    files.push([baseFile(profile.name, 'first', tool), printRuleFile(firstRules(profile, family))]);
    files.push([baseFile(profile.name, 'last', tool), printRuleFile(lastRules(profile, family))]);
  }
  return files;
}

/**
 * The files of each Service for a profile of mode iptables: they depend on the Service, the profile and the nodes only. Services are
 * compiled once per set of options: most profiles have the same.
 */
export function iptablesServiceFiles(profile: Profile, context: CompileContext, memo: Memo): ServiceFiles {
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
      return text === undefined
        ? []
        : [[serviceFile(profile.name, service.namespace, service.name, tool), text] as const];
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

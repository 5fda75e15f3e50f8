import { type Family, type Problem, type Tool, addAll, compareText, familyOf } from '@sluice/netfilter';
import {
  baseFile,
  clusterFile,
  gitFiles,
  nodeFile,
  printRuleFile,
  profileFile,
  serviceFile,
  sysctlFile,
} from '@sluice/bundle';
import { firstRules, lastRules } from './compile/base.ts';
import { clusterText, nodeText, profileText } from './compile/documents.ts';
import { type ServiceOptions, type CompileContext, compileService } from './compile/iptables.ts';
import { sysctlText } from './compile/sysctl.ts';
import type { SluiceConfig, Profile } from './config.ts';
import { ipvsCompiler } from './compile/ipvs/files.ts';
import { nftCompiler } from './compile/nftables/files.ts';
import { detectorGaps } from './detector-gaps.ts';
import { sizeProblems, slotProblems } from './assemble-limits.ts';
import { Memo } from './memo.ts';
import type { Model, Service } from './model.ts';
import { profilesInUse } from './profiles-in-use.ts';
import { fleetOf } from './select/guards.ts';
import { servicesOf } from './versions/eras.ts';

/** A bundle before it is written. */
export interface Assembled {
  /** Path → text, by path in byte order. */
  readonly files: ReadonlyMap<string, string>;
  /** `CHAIN_COLLISION`, `INPUT_TOO_LARGE`, `DETECTOR_MISSING`. */
  readonly problems: readonly Problem[];
}

const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/**
 * Assembles the files of the bundle (packages/bundle/README.md), with the profiles in use, or all of them without nodes.
 * @param complete the input has every Service and endpoint of the cluster
 * @param memo results of earlier calls
 */
export function assemble(model: Model, config: SluiceConfig, complete: boolean, memo = new Memo()): Assembled {
  const files: [string, string][] = [...Object.entries(gitFiles), [clusterFile, clusterText(config, complete)]];
  const { names } = memo;
  const fleet = memo.of('fleet', model.nodes, [], () => fleetOf(model.nodes));
  const texts = serviceTexts({ names, fleet }, memo);
  const ipvsFiles = ipvsCompiler(model, fleet, memo);
  const nftFiles = nftCompiler(model, config, fleet, memo);
  const ruleFiles = (profile: Profile): readonly [string, string][] => {
    if (profile.ipvs) return ipvsFiles(profile, profile.ipvs);
    if (profile.nftables) return nftFiles(profile, profile.nftables);
    return iptablesFiles(profile, texts(servicesOf(model, profile)));
  };
  const profiles = profilesInUse(model, config);
  for (const profile of profiles) {
    addAll(files, documentFiles(profile));
    addAll(files, ruleFiles(profile));
  }
  const byName = new Map(profiles.map((profile) => [profile.name, profile]));
  for (const node of model.nodes) {
    const profile = byName.get(node.profile)!;
    files.push([nodeFile(node.name), memo.of('node', node, [config], () => nodeText(node, profile))]);
  }
  files.sort(([a], [b]) => compareText(a, b));
  return {
    files: new Map(files),
    problems: [
      ...names.collisions(),
      ...sizeProblems(files),
      ...(profiles.some(({ nftables }) => nftables) ? slotProblems(model.services) : []),
      ...detectorGaps(model, profiles),
    ],
  };
}

/** The files of a profile in any mode: its document and its sysctls. */
function documentFiles(profile: Profile): [string, string][] {
  const files: [string, string][] = [[profileFile(profile.name), profileText(profile)]];
  const sysctls = sysctlText(profile);
  if (sysctls !== '') files.push([sysctlFile(profile.name), sysctls]);
  return files;
}

/** The rules of a profile of mode iptables. */
function iptablesFiles(profile: Profile, textsOf: ServiceTexts): [string, string][] {
  const files: [string, string][] = [];
  for (const [tool, family] of tools) {
    if (!profile.families.includes(family)) continue;
    files.push([baseFile(profile.name, 'first', tool), printRuleFile(firstRules(profile, family))]);
    files.push([baseFile(profile.name, 'last', tool), printRuleFile(lastRules(profile, family))]);
    for (const [service, text] of textsOf(family, serviceOptions(profile))) {
      files.push([serviceFile(profile.name, service.namespace, service.name, tool), text]);
    }
  }
  return files;
}

const serviceOptions = ({ featureGates, iptables, detectLocalMode }: Profile): ServiceOptions => ({
  externalIPs: featureGates.AllowServiceExternalIPs,
  masqueradeAll: iptables.masqueradeAll,
  detectLocalMode,
});

/** The rule files of all Services with rules in a family. */
type ServiceTexts = (family: Family, options: ServiceOptions) => readonly (readonly [Service, string])[];

/** Compiles Services once per set of options: most profiles have the same. */
function serviceTexts(context: CompileContext, memo: Memo): (services: readonly Service[]) => ServiceTexts {
  const done = new Map<readonly Service[], Map<string, readonly (readonly [Service, string])[]>>();
  return (services) => (family, options) => {
    const key = `${family} ${JSON.stringify(options)}`;
    const compiled = (service: Service): string | undefined =>
      memo.of(key, service, [context.fleet], () => textOf(service, family, options, context));
    const ofServices = done.get(services) ?? new Map<string, readonly (readonly [Service, string])[]>();
    const texts = ofServices.get(key) ?? textsOfAll(services, compiled);
    done.set(services, ofServices.set(key, texts));
    return texts;
  };
}

function textsOfAll(
  services: readonly Service[],
  compiled: (service: Service) => string | undefined,
): readonly (readonly [Service, string])[] {
  return services.flatMap((service) => {
    const text = compiled(service);
    return text === undefined ? [] : [[service, text] as const];
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

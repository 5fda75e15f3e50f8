import { clusterFile, gitFiles, nodeFile, profileFile, sysctlFile } from '@sluice/bundle';
import { addAll, compareText, type Family, type Problem, shortList, notice } from '@sluice/netfilter';
import { sizeProblems, slotProblems } from './assemble-limits.ts';
import { clusterText, nodeText, profileText } from './compile/documents.ts';
import { nodesByName, type SummedFiles } from './compile/service-files.ts';
import { sysctlText } from './compile/sysctl.ts';
import type { Profile, SluiceConfig } from './model/config.ts';
import { Memo } from './model/memo.ts';
import type { Model, Node } from './model/model.ts';
import { profilesInUse } from './model/profiles-in-use.ts';
import { profileCompiler, serviceCompiler, summedFilesOf } from './planes.ts';
import { familyWord } from './read/addresses.ts';
import { fleetOf } from './select/guards.ts';
import { servicesOf } from './versions/behaviour.ts';

/**
 * Reports profiles that cannot distinguish traffic of pods, because they have no CIDR for a family of Services. kube-proxy then logs a
 * warning and leaves out the rules that need it, and so does `compile`. Where all Nodes have pod CIDRs the note would be noise, although
 * mode ClusterCIDR does not use those, as in kube-proxy.
 * @param profiles the profiles of the bundle
 * @returns one `DETECTOR_MISSING` for each profile and family
 */
export function detectorGaps(model: Model, profiles: readonly Profile[]): readonly Problem[] {
  const served = (profile: Profile, family: Family): boolean =>
    servicesOf(model, profile).some(({ ports }) => ports.some((port) => port.families[family] !== undefined));
  return profiles.flatMap((profile) => {
    const nodes = model.nodes.filter((node) => node.profile === profile.name);
    return profile.families
      .filter((family) => served(profile, family))
      .flatMap((family) => gapOf(profile, family, nodes) ?? []);
  });
}

/** The interface modes need no CIDR. */
function gapOf(profile: Profile, family: Family, nodes: readonly Node[]): Problem | undefined {
  const { detectLocalMode, clusterCIDR } = profile;
  const without = nodes.filter(({ podCIDR }) => podCIDR[family] === undefined).map(({ name }) => name);
  if (detectLocalMode === 'ClusterCIDR' && clusterCIDR[family] === undefined) {
    const isKnown = nodes.length > 0 && without.length === 0;
    return isKnown ? undefined : gap(profile, `clusterCIDR is not set for ${familyWord[family]}`, ofCluster);
  }
  if (detectLocalMode !== 'NodeCIDR' || without.length === 0) return undefined;
  const names = shortList(without.toSorted(compareText));
  return gap(profile, `there is no ${familyWord[family]} pod CIDR of ${names}`, ofInput);
}

const ofCluster =
  'Set clusterCIDR in the profile to what the controller manager has in --cluster-cidr, or choose another detectLocalMode';
const ofInput = 'Add the Nodes to the input, or podCIDRs to `nodes` in sluice.yaml';

/** A note, as pods reach Services in any case. */
function gap(profile: Profile, why: string, hint: string): Problem {
  return notice('DETECTOR_MISSING', `${why}: traffic from outside the cluster to ClusterIPs is not masqueraded`, hint, {
    object: `Profile ${profile.name}`,
  });
}

/** A bundle before it is written. */
export interface Assembled {
  /** Path → text, by path in byte order. */
  readonly files: ReadonlyMap<string, string>;
  /** By the name of their profile. */
  readonly sums: ReadonlyMap<string, SummedFiles>;
  /** `CHAIN_COLLISION`, `INPUT_TOO_LARGE`, `DETECTOR_MISSING`. */
  readonly problems: readonly Problem[];
}

/**
 * Assembles the files of the bundle (packages/bundle/README.md), with the profiles in use, or all of them without nodes.
 * @param complete the input has every Service and endpoint of the cluster
 * @param memo results of earlier calls
 */
export function assemble(model: Model, config: SluiceConfig, complete: boolean, memo = new Memo()): Assembled {
  const files: [string, string][] = [...Object.entries(gitFiles), [clusterFile, clusterText(config, complete)]];
  const { names } = memo;
  const fleet = memo.of('fleet', model.nodes, [], () => fleetOf(model.nodes));
  const filesOfProfile = profileCompiler({ model, config, fleet });
  const profiles = profilesInUse(model, config);
  const context = { names, fleet, nodes: nodesByName(model.nodes) };
  const sums = new Map<string, SummedFiles>();
  for (const profile of profiles) {
    addAll(files, documentFiles(profile));
    addAll(files, filesOfProfile(profile));
    const [filesOf, sum] = [serviceCompiler(profile, context, memo), summedFilesOf(profile, context, memo)];
    for (const service of servicesOf(model, profile)) {
      for (const [path, text] of filesOf(service)) files.push([path, text]);
      sum?.count(service, 1);
    }
    if (!sum) continue;
    sums.set(profile.name, sum);
    for (const [path, text] of sum.files()) files.push([path, text]);
  }
  const byName = new Map(profiles.map((profile) => [profile.name, profile]));
  for (const node of model.nodes) {
    const profile = byName.get(node.profile)!;
    files.push([nodeFile(node.name), memo.of('node', node, [config], () => nodeText(node, profile))]);
  }
  files.sort(([a], [b]) => compareText(a, b));
  return {
    files: new Map(files),
    sums,
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

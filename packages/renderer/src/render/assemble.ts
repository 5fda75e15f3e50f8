import { type Problem, addAll, compareText } from '@sluice/netfilter';
import { clusterFile, gitFiles, nodeFile, profileFile, sysctlFile } from '@sluice/bundle';
import { clusterText, nodeText, profileText } from './compile/documents.ts';
import { profileCompiler, serviceCompiler } from './planes.ts';
import { nodesByName } from './compile/service-files.ts';
import { sysctlText } from './compile/sysctl.ts';
import type { SluiceConfig, Profile } from './model/config.ts';
import { detectorGaps } from './detector-gaps.ts';
import { sizeProblems, slotProblems } from './assemble-limits.ts';
import { Memo } from './model/memo.ts';
import type { Model } from './model/model.ts';
import { profilesInUse } from './model/profiles-in-use.ts';
import { fleetOf } from './select/guards.ts';
import { servicesOf } from './versions/eras.ts';

/** A bundle before it is written. */
export interface Assembled {
  /** Path → text, by path in byte order. */
  readonly files: ReadonlyMap<string, string>;
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
  const filesOfProfile = profileCompiler({ model, config, fleet, memo });
  const profiles = profilesInUse(model, config);
  for (const profile of profiles) {
    addAll(files, documentFiles(profile));
    addAll(files, filesOfProfile(profile));
    const filesOf = serviceCompiler(profile, { names, fleet, nodes: nodesByName(model.nodes) }, memo);
    if (filesOf)
      for (const service of servicesOf(model, profile))
        for (const [path, text] of filesOf(service)) files.push([path, text]);
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

import { compareText, type Family, type Problem } from '@sluice/bundle';
import type { Profile } from './config.ts';
import type { Model, Node } from './model.ts';

/** So many names stand in one message. */
const namesMax = 5;

/**
 * Where a profile cannot tell the traffic of pods from other traffic, because it knows no CIDR of a family that Services
 * have. kube-proxy goes on with a warning and without the rules that need it, and so do the rules here.
 * @param profiles those that the bundle has
 * @returns one `DETECTOR_MISSING` for each profile and family
 */
export function detectorGaps(model: Model, profiles: readonly Profile[]): readonly Problem[] {
  const served = (family: Family): boolean =>
    model.services.some(({ ports }) => ports.some((port) => port.families[family] !== undefined));
  return profiles.flatMap((profile) =>
    profile.families.filter(served).flatMap((family) => {
      const why = missing(profile, family, model.nodes);
      return why === undefined ? [] : [gap(profile, family, why)];
    }),
  );
}

/** What the detector lacks in a family; nothing when it has all it needs. The interface modes depend on no family. */
function missing(profile: Profile, family: Family, nodes: readonly Node[]): string | undefined {
  if (profile.detectLocalMode === 'ClusterCIDR') {
    return profile.clusterCIDR[family] === undefined ? 'clusterCIDR has no network of this family' : undefined;
  }
  if (profile.detectLocalMode !== 'NodeCIDR') return undefined;
  const without = nodes.filter((node) => node.profile === profile.name && node.podCIDR[family] === undefined);
  const names = without.map((node) => node.name).toSorted(compareText);
  if (names.length === 0) return undefined;
  const more = names.length > namesMax ? ` and ${names.length - namesMax} more` : '';
  return `no pod CIDR of this family is known of ${names.slice(0, namesMax).join(', ')}${more}`;
}

function gap(profile: Profile, family: Family, why: string): Problem {
  return {
    code: 'DETECTOR_MISSING',
    // As in kube-proxy nothing stops: pods reach Services all the same.
    level: 'note',
    object: `Profile ${profile.name}`,
    message: `Cannot tell ${family} traffic of pods from other traffic: ${why}; clients outside the cluster that use a cluster address are not masqueraded`,
    hint:
      profile.detectLocalMode === 'ClusterCIDR'
        ? 'Set clusterCIDR in the profile to what the controller manager has in --cluster-cidr, or choose another detectLocalMode'
        : 'Add the Nodes to the input, or podCIDRs to `nodes` in sluice.yaml',
  };
}

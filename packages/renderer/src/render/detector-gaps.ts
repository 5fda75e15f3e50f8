import { compareText, type Family, type Problem } from '@sluice/bundle';
import type { Profile } from './config.ts';
import type { Model, Node } from './model.ts';
import { familyWord } from './read/addresses.ts';
import { servicesOf } from './versions/eras.ts';

/** So many names stand in one message. */
const namesMax = 5;

/**
 * Where a profile cannot tell the traffic of pods from other traffic, because it knows no CIDR of a family that Services
 * have. kube-proxy goes on with a warning and without the rules that need it, and so do the rules here. Where all Nodes have pod CIDRs
 * the cluster is set up to be told apart by them, and the note would only be noise; the rules of mode ClusterCIDR use them no more than
 * kube-proxy does.
 * @param profiles those that the bundle has
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

/** The interface modes depend on no family. */
function gapOf(profile: Profile, family: Family, nodes: readonly Node[]): Problem | undefined {
  const { detectLocalMode, clusterCIDR } = profile;
  const without = nodes.filter(({ podCIDR }) => podCIDR[family] === undefined).map(({ name }) => name);
  if (detectLocalMode === 'ClusterCIDR' && clusterCIDR[family] === undefined) {
    const isKnown = nodes.length > 0 && without.length === 0;
    return isKnown ? undefined : gap(profile, `clusterCIDR is not set for ${familyWord[family]}`, ofCluster);
  }
  if (detectLocalMode !== 'NodeCIDR' || without.length === 0) return undefined;
  const names = without.toSorted(compareText).slice(0, namesMax).join(', ');
  const more = without.length > namesMax ? ` and ${without.length - namesMax} more` : '';
  return gap(profile, `no pod CIDR is known for ${familyWord[family]} of ${names}${more}`, ofInput);
}

const ofCluster =
  'Set clusterCIDR in the profile to what the controller manager has in --cluster-cidr, or choose another detectLocalMode';
const ofInput = 'Add the Nodes to the input, or podCIDRs to `nodes` in sluice.yaml';

function gap(profile: Profile, why: string, hint: string): Problem {
  return {
    code: 'DETECTOR_MISSING',
    // As in kube-proxy nothing stops: pods reach Services all the same.
    level: 'note',
    object: `Profile ${profile.name}`,
    message: `${why}: traffic from outside the cluster to ClusterIPs is not masqueraded`,
    hint,
  };
}

import { compareText, type Family, type Problem } from '@sluice/netfilter';
import type { Profile } from './model/config.ts';
import type { Model, Node } from './model/model.ts';
import { familyWord } from './read/addresses.ts';
import { servicesOf } from './versions/eras.ts';

/** The most names in one message. */
const namesMax = 5;

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
  const names = without.toSorted(compareText).slice(0, namesMax).join(', ');
  const more = without.length > namesMax ? ` and ${without.length - namesMax} more` : '';
  return gap(profile, `there is no ${familyWord[family]} pod CIDR of ${names}${more}`, ofInput);
}

const ofCluster =
  'Set clusterCIDR in the profile to what the controller manager has in --cluster-cidr, or choose another detectLocalMode';
const ofInput = 'Add the Nodes to the input, or podCIDRs to `nodes` in sluice.yaml';

function gap(profile: Profile, why: string, hint: string): Problem {
  return {
    code: 'DETECTOR_MISSING',
    // A note, as pods reach Services in any case.
    level: 'note',
    object: `Profile ${profile.name}`,
    message: `${why}: traffic from outside the cluster to ClusterIPs is not masqueraded`,
    hint,
  };
}

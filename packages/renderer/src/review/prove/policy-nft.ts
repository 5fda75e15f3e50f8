import { baseFile, valueOf } from '@sluice/bundle';
import { type Family, familySuffix } from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';
import { nftOptionsOf } from '../bundle/nft-options.ts';
import type { ProfileTrafficPolicy } from './connection.ts';
import { openNodePorts } from './traffic-policy.ts';

/** The traffic policy of a profile of mode nftables, from its base files. */
export function nftPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
  const { localhost, localhostListener } = nftOptionsOf(view, profile);
  return {
    ...nftDetectorOf(view, profile, family),
    nodePorts: {
      ...openNodePorts(view, profile, family),
      localhost: family === 'ipv4' && localhost === 'served',
    },
    refusesLocalhost: localhost !== undefined,
    listensOnLocalhost: family === 'ipv6' && localhostListener === true,
  };
}

/** In mode nftables the table has the interface of pods, and set `pods` their addresses, as set `keep` does for ClusterIPs. */
function nftDetectorOf(
  view: BundleView,
  profile: string,
  family: Family,
): Pick<ProfileTrafficPolicy, 'notLocal' | 'masqueradeAll'> {
  const last = view.files.get(baseFile(profile, 'last', 'nft')) ?? '';
  const { detector, masqueradeAll } = nftOptionsOf(view, profile);
  if (detector !== 'address') return { notLocal: `! -i ${detector.interface.replace(/\*$/, '+')}`, masqueradeAll };
  // The lines of the other family have the same variable, and without any the profile's values tell which networks were meant.
  const names = [familySuffix[family], '[46]'].flatMap((n) => ['pods', 'keep'].map((name) => `${name}${n}`));
  const [network] = names.flatMap(
    (name) => new RegExp(`^add element inet sluice ${name} \\{ (\\$\\S+) \\}$`, 'm').exec(last)?.[1] ?? [],
  );
  const isKnown = valueOf(view.profiles.get(profile)?.values ?? {}, family, 'clusterCIDR') !== undefined;
  const variable = network ?? (isKnown ? '${profile.clusterCIDR}' : undefined);
  return { notLocal: variable === undefined ? '' : `! -s ${variable}`, masqueradeAll };
}

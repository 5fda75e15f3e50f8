import { differing, type NftFrontend, type NftState, readFrontend } from '@sluice/netfilter';
import { limits } from '../limits.ts';

/** Whether two states of mode nftables differ by endpoints alone, of frontends that have some in both and keep at least half of them. */
export function differsByEndpoints(from: NftState, to: NftState): boolean {
  const sameSettings = from.settings.join('\n') === to.settings.join('\n');
  return sameSettings && differing(from.frontends, to.frontends).every((key) => isUpdated(key, from, to));
}

function isUpdated(key: string, from: NftState, to: NftState): boolean {
  const [before, after] = [from.frontends.get(key), to.frontends.get(key)];
  if (!before || !after) return false;
  const [old, fresh] = [readFrontend(key, before), readFrontend(key, after)];
  return (
    policyOf(old) === policyOf(fresh) &&
    keepsEnough(old.endpoints, fresh.endpoints) &&
    keepsEnough(old.local, fresh.local)
  );
}

const policyOf = ({ endpoints: _endpoints, local: _local, ...policy }: NftFrontend): string => JSON.stringify(policy);

function keepsEnough(old: readonly string[], fresh: readonly string[]): boolean {
  if (old.length === 0 || fresh.length === 0) return old.length === fresh.length;
  const lost = old.filter((one) => !fresh.includes(one)).length;
  return lost <= old.length * limits.endpointsLostShareMax;
}

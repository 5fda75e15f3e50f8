import { type BundleFiles, isProblem } from '@sluice/bundle';
import { printRemoval, type Problem, removalDefaults } from '@sluice/netfilter';
import { openTree } from '../../load/tree.ts';
import { RemovalFinder } from '../../review/removal/removal.ts';
import { reading } from '../failure/failure.ts';

/**
 * Holds a bundle of a cluster that lacks most of what its directory has: an API server that was restored empty, the kubeconfig of another
 * cluster, or permissions that hide Services. `sluice watch` waits a while; one run cannot know for how long the cluster has lacked them.
 * @param dir without a whole bundle it has nothing to lose
 * @returns `REMOVAL_HELD`; undefined: nothing is held
 */
export function removalHeld(dir: string, files: BundleFiles): Problem | undefined {
  const before = reading(dir, () => openTree(dir));
  const removal = isProblem(before) ? undefined : new RemovalFinder().find(before, files, removalDefaults);
  return (
    removal && {
      code: 'REMOVAL_HELD',
      level: 'error',
      message: `Cannot take away ${printRemoval(removal, 'Services')} of ${dir}: the cluster lacks them`,
      hint: 'Find out whether this is the right cluster, whether it was restored, and what the account may list. If the removal is meant, add --accept-removal',
    }
  );
}

import { plural, type Problem, refusal, shortList } from '@sluice/netfilter';
import type { TreePlan } from '../../emit/tree.ts';
import { allocationPath } from '../../load/allocations.ts';
import type { Rendered } from '../../render/render.ts';

/** Returns `OUTPUT_STALE` when bundle files or allocations would be written. */
export function staleProblem(
  dir: string,
  rendered: Rendered,
  plan: TreePlan,
  allocationsDir: string,
): Problem | undefined {
  const stale = plan.write.length + plan.remove.length;
  if (stale === 0 && rendered.created.length === 0) return undefined;
  const missing = rendered.created.map((allocation) => `${allocationsDir}/${allocationPath(allocation)}`);
  const why = [
    stale === 0 ? '' : `${stale} ${stale === 1 ? 'file differs' : 'files differ'}`,
    missing.length === 0 ? '' : `${plural(missing.length, 'Service')} would get allocations in ${shortList(missing)}`,
  ];
  return refusal(
    'OUTPUT_STALE',
    `${dir} is out of date: ${why.filter((text) => text !== '').join('; ')}`,
    'Run the same command without --check and commit the result',
  );
}

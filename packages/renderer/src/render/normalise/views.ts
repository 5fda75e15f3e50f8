import { addAll, type Problem } from '@sluice/netfilter';
import type { Allocation } from '../allocate/allocation.ts';
import { withoutExternalIPs } from '../model/external-ips.ts';
import type { Memo } from '../model/memo.ts';
import type { Service } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';
import type { BehaviourVersion } from '../model/version.ts';
import { asReadBy } from '../versions/behaviour.ts';
import type { ServiceWithSlices } from '../versions/downgrades.ts';
import { makeService, type MadeServices } from './service.ts';

/** A Service with an address and ports, for any version of kube-proxy. */
export interface ServiceCandidate extends ServiceWithSlices {
  readonly numbers: Allocation;
}

/** The input as kube-proxy of one version reads it. */
export interface VersionView {
  readonly version: BehaviourVersion;
  /** In the order of the candidates. */
  readonly made: MadeServices;
  /** The slices that it uses, by `namespace/name` of their Service. */
  readonly backing: ReadonlyMap<string, readonly ReadSlice[]>;
  readonly problems: readonly Problem[];
}

/**
 * The Services of a version. Services that the newest version reads equally are the same objects.
 * @param isOpen whether any node serves external IPs
 */
export function viewOf(
  { version, isOpen }: { readonly version: BehaviourVersion; readonly isOpen: boolean },
  candidates: readonly ServiceCandidate[],
  memo: Memo,
): VersionView {
  const problems: Problem[] = [];
  const made: (readonly [ReadService, Service])[] = [];
  const backing = new Map<string, readonly ReadSlice[]>();
  for (const candidate of candidates) {
    const adapted = asReadBy(version, candidate, problems, memo);
    if (adapted === undefined) continue;
    const { service, slices } = adapted;
    const what = adapted === candidate ? 'service' : `service ${version}`;
    const inputs = [candidate.numbers, ...slices];
    const whole = memo.of(what, service, inputs, () => makeService(service, candidate.numbers, slices));
    const open = isOpen ? whole : memo.of('without external IPs', whole, [], () => withoutExternalIPs(whole));
    made.push([service, open]);
    backing.set(service.key, slices);
  }
  return { version, made, backing, problems };
}

/** Drops duplicates: several versions may find the same problem. */
function once(problems: readonly Problem[]): readonly Problem[] {
  const adapted = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return adapted.size === problems.length ? problems : [...adapted.values()];
}

/** The problems of all views, without duplicates. */
export function ofViews(
  views: readonly VersionView[],
  find: (view: VersionView) => readonly Problem[],
): readonly Problem[] {
  const found: Problem[] = [];
  for (const view of views) addAll(found, find(view));
  return views.length === 1 ? found : once(found);
}

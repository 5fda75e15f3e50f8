import { addAll, type Problem } from '@sluice/netfilter';
import type { Allocation } from '../allocate/allocation.ts';
import { withoutExternalIPs } from '../model/external-ips.ts';
import type { Memo } from '../model/memo.ts';
import type { Service } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';
import type { Era } from '../model/version.ts';
import { inEra } from '../versions/eras.ts';
import type { ServiceWithSlices } from '../versions/downgrades.ts';
import { makeService, type MadeServices } from './service.ts';

/** A Service with an address and ports, for any version of kube-proxy. */
export interface ServiceCandidate extends ServiceWithSlices {
  readonly numbers: Allocation;
}

/** The input as kube-proxy of one era reads it. */
export interface EraView {
  readonly era: Era;
  /** In the order of the candidates. */
  readonly made: MadeServices;
  /** The slices that it uses, by `namespace/name` of their Service. */
  readonly backing: ReadonlyMap<string, readonly ReadSlice[]>;
  readonly problems: readonly Problem[];
}

/**
 * The Services of an era. Services that the newest era reads equally are the same objects.
 * @param isOpen whether any node serves external IPs
 */
export function viewOf(
  { era, isOpen }: { readonly era: Era; readonly isOpen: boolean },
  candidates: readonly ServiceCandidate[],
  memo: Memo,
): EraView {
  const problems: Problem[] = [];
  const made: (readonly [ReadService, Service])[] = [];
  const backing = new Map<string, readonly ReadSlice[]>();
  for (const candidate of candidates) {
    const adapted = inEra(era, candidate, problems, memo);
    if (adapted === undefined) continue;
    const { service, slices } = adapted;
    const what = adapted === candidate ? 'service' : `service ${era}`;
    const inputs = [candidate.numbers, ...slices];
    const whole = memo.of(what, service, inputs, () => makeService(service, candidate.numbers, slices));
    const open = isOpen ? whole : memo.of('without external IPs', whole, [], () => withoutExternalIPs(whole));
    made.push([service, open]);
    backing.set(service.key, slices);
  }
  return { era, made, backing, problems };
}

/** Drops duplicates: several eras may find the same problem. */
function once(problems: readonly Problem[]): readonly Problem[] {
  const adapted = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return adapted.size === problems.length ? problems : [...adapted.values()];
}

/** The problems of all views, without duplicates. */
export function ofViews(views: readonly EraView[], find: (view: EraView) => readonly Problem[]): readonly Problem[] {
  const found: Problem[] = [];
  for (const view of views) addAll(found, find(view));
  return views.length === 1 ? found : once(found);
}

import { addAll, type Problem } from '@sluice/bundle';
import type { Allocation } from '../allocate/allocation.ts';
import { withoutExternalIPs } from '../external-ips.ts';
import type { Memo } from '../memo.ts';
import type { Service } from '../model.ts';
import type { ReadService } from '../read/service.ts';
import type { ReadSlice } from '../read/slice.ts';
import { type Era, seenIn } from '../versions/eras.ts';
import type { Seen } from '../versions/seen.ts';
import { makeService } from './service.ts';

/** A Service that has an address and ports, before anything is known of kube-proxy's version. */
export interface Candidate extends Seen {
  readonly numbers: Allocation;
}

/** What kube-proxy of one era makes of the input. */
export interface View {
  readonly era: Era;
  /** In the order of the candidates. */
  readonly made: readonly (readonly [ReadService, Service])[];
  /** The slices that count, by `namespace/name` of their Service. */
  readonly backing: ReadonlyMap<string, readonly ReadSlice[]>;
  readonly problems: readonly Problem[];
}

/**
 * The Services of an era. Those that it sees as the newest one does are the same objects.
 * @param isOpen whether external IPs are served on some node
 */
export function viewOf(
  { era, isOpen }: { readonly era: Era; readonly isOpen: boolean },
  candidates: readonly Candidate[],
  memo: Memo,
): View {
  const problems: Problem[] = [];
  const made: (readonly [ReadService, Service])[] = [];
  const backing = new Map<string, readonly ReadSlice[]>();
  for (const candidate of candidates) {
    const seen = seenIn(era, candidate, problems, memo);
    if (seen === undefined) continue;
    const { service, slices } = seen;
    const what = seen === candidate ? 'service' : `service ${era}`;
    const inputs = [candidate.numbers, ...slices];
    const whole = memo.of(what, service, inputs, () => makeService(service, candidate.numbers, slices));
    const open = isOpen ? whole : memo.of('without external IPs', whole, [], () => withoutExternalIPs(whole));
    made.push([service, open]);
    backing.set(service.key, slices);
  }
  return { era, made, backing, problems };
}

/** Each problem once: eras that see a Service alike find the same. */
export function once(problems: readonly Problem[]): readonly Problem[] {
  const seen = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return seen.size === problems.length ? problems : [...seen.values()];
}

/** Adds what every view of several has. */
export function ofViews(views: readonly View[], find: (view: View) => readonly Problem[]): readonly Problem[] {
  const found: Problem[] = [];
  for (const view of views) addAll(found, find(view));
  return views.length === 1 ? found : once(found);
}

import { readPath, serviceOf } from '@sluice/bundle';
import { compareText, type Family } from '@sluice/netfilter';
import { type FactChange, factChanges } from '../facts/fact-changes.ts';
import { portPairs, type ServiceFacts } from '../facts/facts.ts';
import { factsIn, familiesOf, type ServicePlace } from '../facts/read.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/** A change of a Service in one family. */
export interface ServiceChange {
  readonly service: string;
  readonly family: Family;
  /** The profiles with this change. */
  readonly profiles: readonly string[];
  readonly kind: 'added' | 'removed' | 'changed';
  readonly changes: readonly FactChange[];
  /** The ports that lose their last endpoint. */
  readonly emptied: readonly string[];
  /** The number of nodes with these profiles. */
  readonly nodes: number;
}

/** The changes of the Services whose files differ. */
export function serviceChanges(
  before: BundleView,
  after: BundleView,
  changed: ReadonlySet<string>,
): readonly ServiceChange[] {
  const merged = new Map<string, Omit<ServiceChange, 'nodes'>>();
  for (const place of changedServices(changed)) {
    const { profile, service, family } = place;
    const [old, updated] = [factsIn(before, place), factsIn(after, place)];
    const changes = factChanges(old, updated);
    if (changes.length === 0) continue;
    const kind = old === undefined ? 'added' : updated === undefined ? 'removed' : 'changed';
    const emptied = emptiedPorts(old, updated);
    // Where profiles have other endpoints, the same change may take the last one of a profile alone.
    const key = JSON.stringify([service, family, kind, changes, emptied]);
    const profiles = [...(merged.get(key)?.profiles ?? []), profile];
    merged.set(key, { service, family, profiles, kind, changes, emptied });
  }
  const nodesIn = (profile: string): number => nodesOfProfile(after, profile).length;
  return [...merged.values()].map((change) => ({
    ...change,
    nodes: change.profiles.reduce((sum, profile) => sum + nodesIn(profile), 0),
  }));
}

/** The Services of changed files, ordered by profile, name and family. */
function changedServices(changed: ReadonlySet<string>): readonly ServicePlace[] {
  const places = new Map<string, ServicePlace>();
  for (const path of changed) {
    const what = readPath(path);
    if (what?.kind !== 'service') continue;
    const { profile, tool } = what;
    const service = serviceOf(path);
    for (const family of familiesOf(tool)) places.set(`${profile}/${service} ${family}`, { profile, service, family });
  }
  return [...places].toSorted(([a], [b]) => compareText(a, b)).map(([, place]) => place);
}

function emptiedPorts(old: ServiceFacts | undefined, updated: ServiceFacts | undefined): readonly string[] {
  return portPairs(old, updated).flatMap(({ old: was, new: is }) =>
    was && is && was.endpoints.length > 0 && is.endpoints.length === 0 ? [is.key] : [],
  );
}

import { readPath, serviceFile } from '@sluice/bundle';
import { compareText, type Family, type Tool, type VirtualTool } from '@sluice/netfilter';
import { type FactChange, factChanges } from '../facts/fact-changes.ts';
import type { ServiceFacts } from '../facts/facts.ts';
import { factsOf } from '../facts/of-rules.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import { rulesAt } from '../bundle/files.ts';
import { portPairs } from '../facts/port-pairs.ts';
import { toolOf, tools } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';
import { virtualFacts } from '../facts/of-servers.ts';

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
    const [old, fresh] = [factsAt(before, place), factsAt(after, place)];
    const changes = factChanges(old, fresh);
    if (changes.length === 0) continue;
    const kind = old === undefined ? 'added' : fresh === undefined ? 'removed' : 'changed';
    const key = JSON.stringify([service, family, kind, changes]);
    const profiles = [...(merged.get(key)?.profiles ?? []), profile];
    merged.set(key, { service, family, profiles, kind, changes, emptied: emptiedPorts(old, fresh) });
  }
  const nodesIn = (profile: string): number => nodesOfProfile(after, profile).length;
  return [...merged.values()].map((change) => ({
    ...change,
    nodes: change.profiles.reduce((sum, profile) => sum + nodesIn(profile), 0),
  }));
}

/** A Service in one family of one profile. */
interface ServicePlace {
  readonly profile: string;
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  readonly family: Family;
}

/** The Services of changed files, ordered by profile, name and family. */
function changedServices(changed: ReadonlySet<string>): readonly ServicePlace[] {
  const places = new Map<string, ServicePlace>();
  for (const path of changed) {
    const what = readPath(path);
    if (what?.kind !== 'service') continue;
    const { profile, namespace, name, tool } = what;
    const own = tools.find(([one]) => one === tool)?.[1];
    for (const family of own === undefined ? (['ipv4', 'ipv6'] as const) : [own]) {
      const service = `${namespace}/${name}`;
      places.set(`${profile}/${service} ${family}`, { profile, namespace, name, service, family });
    }
  }
  return [...places].toSorted(([a], [b]) => compareText(a, b)).map(([, place]) => place);
}

/** @returns undefined when the Service has no file there, or no port in the family */
function factsAt(
  view: BundleView,
  { profile, namespace, name, service, family }: ServicePlace,
): ServiceFacts | undefined {
  const pathOf = (tool: Tool | VirtualTool): string => serviceFile(profile, namespace, name, tool);
  if (view.profiles.get(profile)?.mode === 'ipvs') {
    const [ipvs, ipset] = [view.files.get(pathOf('ipvs')), view.files.get(pathOf('ipset'))];
    const facts = virtualFacts(service, family, { ipvs, ipset });
    return facts.ports.length === 0 ? undefined : facts;
  }
  const path = pathOf(toolOf[family]);
  return view.files.has(path) ? factsOf(service, family, rulesAt(view, path)) : undefined;
}

function emptiedPorts(old: ServiceFacts | undefined, fresh: ServiceFacts | undefined): readonly string[] {
  return portPairs(old, fresh).flatMap(({ old: was, new: is }) =>
    was && is && was.endpoints.length > 0 && is.endpoints.length === 0 ? [is.key] : [],
  );
}

import type { BundleFiles } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { type BundleDiff, diffBundles } from '../diff/diff.ts';
import type { FlowOutcome } from '../flows/flow.ts';
import { ReviewStopped } from '../bundle/node.ts';
import { type ServiceEntries, serviceEntries } from '../facts/service-entries.ts';
import { checkPolicy, type PolicyResult } from '../policy/policy.ts';
import type { PolicySettings } from '../policy/settings.ts';
import { viewOf } from '../bundle/view.ts';

/** The change of a Service, an endpoint or a node from the old bundle to the new one. */
export type Fate = 'same' | 'added' | 'removed' | 'changed';

/** The content of a report on a change. */
export interface ChangeReport {
  readonly diff: BundleDiff;
  /** Of both bundles, by name. */
  readonly services: readonly ReportService[];
  /** By zone, then name. */
  readonly nodes: readonly ReportNode[];
  /** Absent if the policy was not checked. */
  readonly policy?: PolicyResult;
}

/** A Service in both families. */
export interface ReportService {
  readonly service: string;
  readonly fate: Fate;
  /** `10.96.0.10:80`, in byte order. */
  readonly addresses: readonly string[];
  readonly endpoints: readonly ReportEndpoint[];
}

export interface ReportEndpoint {
  readonly text: string;
  readonly node?: string;
  readonly zone?: string;
  readonly fate: Exclude<Fate, 'changed'>;
}

export interface ReportNode {
  readonly name: string;
  readonly zone?: string;
  readonly fate: Exclude<Fate, 'changed'>;
}

/** The input of a report. */
export interface ReportInput {
  readonly old: BundleFiles;
  readonly fresh: BundleFiles;
  /** Present: check the policy too. */
  readonly policy?: { readonly settings: PolicySettings; readonly today: string };
}

/** Compares two bundles for a report. @returns the report, or the problems for which nodes would refuse a bundle */
export function reportOn({ old, fresh, policy }: ReportInput): ChangeReport | readonly Problem[] {
  const diff = diffBundles(old, fresh);
  if (!('flows' in diff)) return diff;
  const [before, after] = [viewOf(old), viewOf(fresh)];
  if (!('index' in before)) return before;
  if (!('index' in after)) return after;
  const checked = policy && checkPolicy({ files: fresh, base: old, ...policy });
  if (checked && !('findings' in checked)) return checked;
  try {
    return {
      diff,
      services: servicesOf(serviceEntries(before), serviceEntries(after), diff),
      nodes: nodesOf(before.nodes, after.nodes),
      ...(checked === undefined ? {} : { policy: checked }),
    };
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
}

function servicesOf(old: ServiceEntries, fresh: ServiceEntries, diff: BundleDiff): readonly ReportService[] {
  const changed = new Set(diff.services.map(({ service }) => service));
  const [before, after] = [byName(old), byName(fresh)];
  const names = [...new Set([...before.keys(), ...after.keys()])].toSorted(compareText);
  return names.map((service) => {
    const [was, is] = [before.get(service), after.get(service)];
    const fate: Fate = !was ? 'added' : !is ? 'removed' : changed.has(service) ? 'changed' : 'same';
    const addresses = new Set([...(was?.addresses ?? []), ...(is?.addresses ?? [])]);
    return { service, fate, addresses: [...addresses].toSorted(compareText), endpoints: endpointsOf(was, is) };
  });
}

interface WholeService {
  readonly addresses: Set<string>;
  /** By text and node. */
  readonly endpoints: Map<string, Omit<ReportEndpoint, 'fate'>>;
}

/** Services with both of their families, and all profiles. */
function byName(entries: ServiceEntries): ReadonlyMap<string, WholeService> {
  const found = new Map<string, WholeService>();
  for (const { facts } of [...entries.values()].flat()) {
    const whole = found.get(facts.service) ?? { addresses: new Set(), endpoints: new Map() };
    found.set(facts.service, whole);
    for (const port of facts.ports) {
      for (const { text } of port.addresses) whole.addresses.add(text);
      for (const endpoint of port.endpoints) whole.endpoints.set(`${endpoint.text} ${endpoint.node}`, endpoint);
    }
  }
  return found;
}

function endpointsOf(was: WholeService | undefined, is: WholeService | undefined): readonly ReportEndpoint[] {
  const keys = new Set([...(was?.endpoints.keys() ?? []), ...(is?.endpoints.keys() ?? [])]);
  return [...keys].toSorted(compareText).map((key) => {
    const [old, fresh] = [was?.endpoints.get(key), is?.endpoints.get(key)];
    return { ...(fresh ?? old)!, fate: !old ? 'added' : fresh ? 'same' : 'removed' };
  });
}

type ZonedNodes = ReadonlyMap<string, { readonly zone?: string }>;

function nodesOf(before: ZonedNodes, after: ZonedNodes): readonly ReportNode[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .map((name): ReportNode => {
      const zone = (after.get(name) ?? before.get(name))?.zone;
      const fate = !before.has(name) ? 'added' : after.has(name) ? 'same' : 'removed';
      return { name, fate, ...(zone === undefined ? {} : { zone }) };
    })
    .toSorted((a, b) => compareText(a.zone ?? '', b.zone ?? '') || compareText(a.name, b.name));
}

/** The effect of a change on clients: a destination becomes reachable, unreachable, or leads elsewhere. */
export type FlowEffect = 'opens' | 'closes' | 'moves';

/** The effect of a changed outcome. */
export function effectOf(old: FlowOutcome, fresh: FlowOutcome): FlowEffect {
  const [was, is] = [reaches(old), reaches(fresh)];
  return was === is ? 'moves' : is ? 'opens' : 'closes';
}

function reaches({ branches }: FlowOutcome): boolean {
  return branches.some(({ verdict }) => verdict === 'dnat' || verdict === 'accept');
}

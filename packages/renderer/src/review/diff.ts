import { type BundleFiles, readPath, serviceFile } from '@sluice/bundle';
import { compareText, type Family, type Problem, type Tool, type VirtualTool } from '@sluice/netfilter';
import { changedFlows, type ChangedFlow } from './diff-flows.ts';
import { type FactChange, factChanges } from './fact-changes.ts';
import { factsOf, type ServiceFacts } from './facts.ts';
import { nodesOfProfile } from './flows.ts';
import { Memory } from './memory.ts';
import { ReviewStopped } from './node.ts';
import { portPairs } from './port-pairs.ts';
import { type ProfileChange, profileChanges } from './profile-changes.ts';
import { type BundleView, viewOf } from './view.ts';
import { toolOf, tools } from './tools.ts';
import { virtualFacts } from './virtual/facts.ts';

/** The differences of two bundles in declarations and in behaviour. */
export interface BundleDiff {
  /** By name, then family. */
  readonly services: readonly ServiceChange[];
  /** Flows whose outcome changed. */
  readonly flows: readonly ChangedFlow[];
  /** Lines of `sysctl.conf`, values of `node.yaml`, `profile.yaml` and `cluster.yaml`, rules of base files. */
  readonly settings: readonly SettingChange[];
  /** Settings that change the traffic of every node with a profile. */
  readonly profiles: readonly ProfileChange[];
  readonly nodes: { readonly added: readonly string[]; readonly removed: readonly string[]; readonly all: number };
  /** Lines of rules, guarded ones counted once. */
  readonly rules: { readonly old: number; readonly new: number };
}

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

export interface SettingChange {
  /** The file; for several nodes with the same change, that of the last one: `nodes/node-a/node.yaml`. */
  readonly file: string;
  readonly old: readonly string[];
  readonly new: readonly string[];
}

/**
 * Compares what two bundles do to traffic. The order of rules alone makes no difference.
 * @returns the differences, or the problems for which nodes would refuse a bundle
 */
export function diffBundles(old: BundleFiles, fresh: BundleFiles): BundleDiff | readonly Problem[] {
  const memory = new Memory();
  const [before, after] = [viewOf(old, memory), viewOf(fresh, memory)];
  if (!('index' in before)) return before;
  if (!('index' in after)) return after;
  const changed = changedPaths(old, fresh);
  try {
    const settings = settingChanges(before, after, changed);
    return {
      services: serviceChanges(before, after, changed),
      flows: changedFlows(before, after, changed),
      settings,
      profiles: profileChanges(before, after, settings),
      nodes: nodeChanges(before, after),
      rules: { old: countRules(old), new: countRules(fresh) },
    };
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
}

/** Whether two bundles have no differences. */
export function isSame({ services, flows, settings, nodes }: BundleDiff): boolean {
  return services.length + flows.length + settings.length + nodes.added.length + nodes.removed.length === 0;
}

function changedPaths(old: BundleFiles, fresh: BundleFiles): ReadonlySet<string> {
  const changed = new Set<string>();
  for (const [path, text] of fresh) if (old.get(path) !== text) changed.add(path);
  for (const path of old.keys()) if (!fresh.has(path)) changed.add(path);
  return changed;
}

function serviceChanges(before: BundleView, after: BundleView, changed: ReadonlySet<string>): readonly ServiceChange[] {
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
  const text = view.files.get(path);
  if (text === undefined) return undefined;
  const file = view.memory.file(path, text);
  if (!('sections' in file)) throw new ReviewStopped(file);
  return factsOf(service, family, file);
}

function emptiedPorts(old: ServiceFacts | undefined, fresh: ServiceFacts | undefined): readonly string[] {
  return portPairs(old, fresh).flatMap(({ old: was, new: is }) =>
    was && is && was.endpoints.length > 0 && is.endpoints.length === 0 ? [is.key] : [],
  );
}

/** Lines that only one of two files has, in any order; nodes with the same changes are merged. */
function settingChanges(before: BundleView, after: BundleView, changed: ReadonlySet<string>): readonly SettingChange[] {
  const found = new Map<string, SettingChange>();
  for (const path of [...changed].toSorted(compareText)) {
    const what = readPath(path);
    if (!what || what.kind === 'service' || what.kind === 'git' || what.kind === 'quarantine') continue;
    // Added and removed nodes are counted separately.
    if (what.kind === 'node' && !(before.files.has(path) && after.files.has(path))) continue;
    const [old, fresh] = [linesOf(before.files.get(path)), linesOf(after.files.get(path))];
    const change = {
      file: path,
      old: old.filter((line) => !fresh.includes(line)),
      new: fresh.filter((line) => !old.includes(line)),
    };
    if (change.old.length + change.new.length === 0) continue;
    found.set(what.kind === 'node' ? JSON.stringify([change.old, change.new]) : path, change);
  }
  return [...found.values()];
}

const linesOf = (text = ''): readonly string[] =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));

function nodeChanges(before: BundleView, after: BundleView): BundleDiff['nodes'] {
  return {
    added: [...after.nodes.keys()].filter((name) => !before.nodes.has(name)),
    removed: [...before.nodes.keys()].filter((name) => !after.nodes.has(name)),
    all: after.nodes.size,
  };
}

function countRules(files: BundleFiles): number {
  let count = 0;
  for (const [path, text] of files) {
    const kind = readPath(path)?.kind;
    if (kind !== 'base' && kind !== 'service') continue;
    for (let at = 0; at >= 0; at = text.indexOf('\n', at + 1)) {
      const first = text.charCodeAt(at === 0 ? 0 : at + 1);
      if (first === 0x2d || first === 0x40 || first === 0x61) count++;
    }
  }
  return count;
}

import { type BundleFiles, readPath } from '@sluice/bundle';
import { differing } from '@sluice/netfilter';
import { changedFlows, type ChangedFlow } from './flow-changes.ts';
import { Memory } from '../bundle/memory.ts';
import { type ProfileChange, profileChanges } from './profile-changes.ts';
import { type ServiceChange, serviceChanges } from './service-changes.ts';
import { type SettingChange, settingChanges } from './setting-changes.ts';
import { type BundleView, viewOf } from '../bundle/view.ts';

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

/**
 * Compares what two bundles do to traffic. The order of rules alone makes no difference.
 * @throws Stopped with the problems for which nodes would refuse a bundle
 */
export function diffBundles(old: BundleFiles, updated: BundleFiles): BundleDiff {
  const memory = new Memory();
  return diffViews(viewOf(old, memory), viewOf(updated, memory));
}

/** `diffBundles` for two views, which should share one memory. */
export function diffViews(before: BundleView, after: BundleView): BundleDiff {
  const [old, updated] = [before.files, after.files];
  const changed = new Set(differing(old, updated));
  const settings = settingChanges(before, after, changed);
  return {
    services: serviceChanges(before, after, changed),
    flows: changedFlows(before, after, changed),
    settings,
    profiles: profileChanges(before, after, settings),
    nodes: nodeChanges(before, after),
    rules: { old: countRules(old), new: countRules(updated) },
  };
}

/** Whether two bundles have no differences. */
export function isSame({ services, flows, settings, nodes }: BundleDiff): boolean {
  return services.length + flows.length + settings.length + nodes.added.length + nodes.removed.length === 0;
}

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

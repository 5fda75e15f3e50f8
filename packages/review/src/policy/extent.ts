import {
  type BundleFiles,
  isSameEverywhere,
  isVirtualSameEverywhere,
  nodeFile,
  profileFile,
  profileIn,
  readPath,
  resolvedDigest,
  resolveFile,
  resolveVirtual,
} from '@sluice/bundle';
import { differing, familyOf, hasLines } from '@sluice/netfilter';
import { type NodeOf, nodeOf, scopeOf } from '../bundle/node.ts';
import { numberAndProtocolOf } from '../facts/facts.ts';
import { virtualAt } from '../bundle/files.ts';
import type { Violation, Violations } from './finding.ts';
import type { ChangeContext, PolicyContext } from './context.ts';
import { policyDefaults } from './settings.ts';

const bundle = { subject: 'bundle', path: 'cluster.yaml', line: 1 } as const;

/** ENDPOINTS_CHANGED: the share of endpoints added to or removed from Services of both bundles. */
export function endpointsChanged({ services, base, settings }: ChangeContext): Violations {
  const most = settings.endpointsChangedPercent ?? policyDefaults.endpointsChangedPercent;
  const textsOf = (entries: typeof services, others: typeof services): Set<string> =>
    new Set(
      [...entries].flatMap(([key, list]) =>
        others.has(key)
          ? list.flatMap(({ facts }) =>
              facts.ports.flatMap((port) =>
                port.endpoints.map(({ text, node }) => `${facts.service} ${numberAndProtocolOf(port)} ${text} ${node}`),
              ),
            )
          : [],
      ),
    );
  const [old, updated] = [textsOf(base.services, services), textsOf(services, base.services)];
  const changed = Math.max(without(old, updated), without(updated, old));
  const percent = (100 * changed) / Math.max(1, old.size);
  if (old.size === 0 || percent <= most) return [];
  return {
    ...bundle,
    code: 'ENDPOINTS_CHANGED',
    message: `${changed} of ${old.size} endpoints will change, more than ${most} %; review required`,
    hint: 'Check that the input is complete; change them in several steps, or raise `policy.endpointsChangedPercent`',
  };
}

/** The number of elements of the first set that are not in the second. */
function without(some: ReadonlySet<string>, others: ReadonlySet<string>): number {
  return [...some].filter((one) => !others.has(one)).length;
}

/** NODES_CHANGED: the share of nodes of both bundles with changed rules or settings. */
export function nodesChanged(context: ChangeContext): Violations {
  const { view, base, settings } = context;
  const most = settings.nodesChangedPercent ?? policyDefaults.nodesChangedPercent;
  const shared = [...view.nodes.keys()].filter((name) => base.view.nodes.has(name));
  const changed = Map.groupBy(differing(base.view.files, view.files), profileIn);
  const count = shared.filter((name) => isNodeChanged(context, name, changed)).length;
  if ((100 * count) / Math.max(1, shared.length) <= most) return [];
  return {
    ...bundle,
    code: 'NODES_CHANGED',
    message: `${count} of ${shared.length} nodes will change, more than ${most} %; review required`,
    hint: 'Change one profile at a time, or raise `policy.nodesChangedPercent`',
  };
}

function isNodeChanged(
  { view, base }: ChangeContext,
  name: string,
  changed: ReadonlyMap<string, readonly string[]>,
): boolean {
  const path = nodeFile(name);
  if (view.files.get(path) !== base.view.files.get(path)) return true;
  const paths = changed.get(view.nodes.get(name)!.profile) ?? [];
  return paths.some((one) => digestOn(base.view, name, one) !== digestOn(view, name, one));
}

/** A digest of the lines that a file has on a node; the text of files that are the same on all nodes. */
function digestOn(view: PolicyContext['view'], name: string, path: string): string | undefined {
  const text = view.files.get(path);
  const what = readPath(path);
  if (text === undefined || what?.kind !== 'service') return text;
  const node = nodeOf(view, name);
  if (hasLines(what.tool)) return virtualOn(view, node, path) ?? text;
  const file = view.memory.file(path, text);
  if (!('sections' in file) || isSameEverywhere(file)) return text;
  return resolvedDigest(resolveFile(file, scopeOf(node, familyOf[what.tool])));
}

/** The lines of an `.ipset`, `.ipvs` or `.nft` file on a node; undefined if they are the same on all nodes. */
function virtualOn(view: PolicyContext['view'], node: NodeOf, path: string): string | undefined {
  const file = virtualAt(view, path);
  if (isVirtualSameEverywhere(file)) return undefined;
  const resolved = resolveVirtual(file, scopeOf(node, 'ipv4'), node.profile.families);
  return 'lines' in resolved ? resolved.lines.map(({ text }) => text).join('\n') : undefined;
}

/** MODE_CHANGED and RULE_GROWTH, by profile. */
export function profilesChanged({ view, base, settings }: ChangeContext): readonly Violation[] {
  const most = settings.ruleGrowthPercent ?? policyDefaults.ruleGrowthPercent;
  const [before, after] = [rulesByProfile(base.view.files), rulesByProfile(view.files)];
  return [...view.profiles].flatMap(([name, profile]) => {
    const old = base.view.profiles.get(name);
    if (!old) return [];
    const place = { subject: `profile ${name}`, path: profileFile(name), line: 1 } as const;
    const found: Violation[] = [];
    if (old.mode !== profile.mode) {
      found.push({
        ...place,
        code: 'MODE_CHANGED',
        message: `Mode will change from ${old.mode} to ${profile.mode}, which breaks established connections; review required`,
        hint: 'Move a few nodes to a separate profile first',
      });
    }
    const [was, is] = [before.get(name) ?? 0, after.get(name) ?? 0];
    if (old.mode === profile.mode && was > 0 && (100 * (is - was)) / was > most) {
      found.push({
        ...place,
        code: 'RULE_GROWTH',
        message: `Rules will grow from ${was} to ${is} lines, by more than ${most} %; review required`,
        hint: 'Check their cost with `sluice cost`; raise `policy.ruleGrowthPercent` if the growth is intended',
      });
    }
    return found;
  });
}

function rulesByProfile(files: BundleFiles): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [path, text] of files) {
    const what = readPath(path);
    if (what?.kind !== 'service' && what?.kind !== 'base') continue;
    const rules = text.split('\n').filter((line) => /^(?:-|@|add element )/.test(line)).length;
    counts.set(what.profile, (counts.get(what.profile) ?? 0) + rules);
  }
  return counts;
}

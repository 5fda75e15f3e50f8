import { type NodeOf, scopeOf } from './node.ts';
import {
  commentBlockOf,
  isVirtualSameEverywhere,
  resolveVirtual,
  type RuleFile,
  type VirtualFile,
} from '@sluice/bundle';
import { type Family, hasLines, perKey, type ResolvedVirtualFile, Stopped } from '@sluice/netfilter';
import { toolAt } from './tools.ts';
import type { BundleView } from './view.ts';

/** The part of a view in which files are read. */
export type ViewedFiles = Pick<BundleView, 'files' | 'memory'>;

/**
 * The rules in a file of a view.
 * @throws Stopped with its problems
 */
export function rulesAt(view: ViewedFiles, path: string): RuleFile {
  const file = view.memory.file(path, view.files.get(path) ?? '');
  if ('sections' in file) return file;
  throw new Stopped(file);
}

/**
 * An `.ipset`, `.ipvs` or `.nft` file of a view.
 * @throws Stopped with its problems
 */
export function virtualAt(view: ViewedFiles, path: string): VirtualFile {
  const file = view.memory.virtual(path, view.files.get(path)!);
  if ('lines' in file) return file;
  throw new Stopped(file);
}

/**
 * The comment block above the lines of a file.
 * @throws Stopped with the problems of a file of rules
 */
export function commentBlockAt(view: ViewedFiles, path: string): readonly string[] {
  const { tool } = toolAt(path);
  return hasLines(tool) ? commentBlockOf(view.files.get(path)!) : rulesAt(view, path).header;
}

/** Files that are the same on every node are resolved once, all others once per node. */
const same = perKey<VirtualFile, ResolvedVirtualFile>();
const ofNode = perKey<BundleView, ResolvedVirtualFile>();

/**
 * A file of lines on a node.
 * @param family of the values for its variables; a file of mode nftables is resolved once for both
 * @throws Stopped with its problems
 */
export function resolvedAt(view: BundleView, node: NodeOf, path: string, family: Family = 'ipv4'): ResolvedVirtualFile {
  const file = virtualAt(view, path);
  const resolve = (): ResolvedVirtualFile => {
    const resolved = resolveVirtual(file, scopeOf(node, family), node.profile.families);
    if (!('path' in resolved)) throw new Stopped(resolved);
    return resolved;
  };
  const isSame = isVirtualSameEverywhere(file) && !file.lines.some(({ text }) => text.includes('${profile.'));
  const key = `${path} ${family}`;
  return isSame
    ? same(file, `${key} ${node.profile.families.join()}`, resolve)
    : ofNode(view, `${node.name} ${key}`, resolve);
}

import { type Family, perKey, type Problem, Stopped } from '@sluice/netfilter';
import { type NodeFile, type ProfileFile, profileOn, type Scope, valueOf } from '@sluice/bundle';
import type { BundleView } from './view.ts';

/** One node of a view. */
export interface NodeOf {
  readonly name: string;
  readonly file: NodeFile;
  readonly profile: ProfileFile;
  /** Those of its interfaces, where the node was observed; absent: only the one in `node.yaml` is known. */
  readonly addresses?: readonly string[];
}

/** What a review finds, or the problems at which it stopped. */
export function orProblems<T>(review: () => T): T | readonly Problem[] {
  try {
    return review();
  } catch (error) {
    if (error instanceof Stopped) return error.problems;
    throw error;
  }
}

/** What was read. @throws Stopped with the problems for which it could not be */
export function readOrStop<T extends object>(read: T): Exclude<T, { readonly problems: readonly Problem[] }> {
  if ('problems' in read) throw new Stopped(read.problems as readonly Problem[]);
  return read as Exclude<T, { readonly problems: readonly Problem[] }>;
}

/** The node of that name, which the view must have. */
export const nodeOf = (view: BundleView, name: string): NodeOf =>
  nodes(view, name, () => {
    const file = view.nodes.get(name)!;
    return { name, file, profile: profileOn(view.profiles.get(file.profile)!, file) };
  });

const nodes = perKey<BundleView, NodeOf>();

/** The nodes of a profile, in byte order. */
export function nodesOfProfile(view: BundleView, profile: string): readonly string[] {
  return [...view.nodes].flatMap(([name, file]) => (file.profile === profile ? [name] : []));
}

/** The address or the pod network of a node in `node.yaml`. */
export function factOf(node: NodeOf, family: Family, name: 'address' | 'podCIDR'): string | undefined {
  const value = valueOf(node.file.values, family, name);
  return typeof value === 'string' ? value : undefined;
}

/** The addresses of a node in a family at which it may open node ports. */
export function addressesOf(node: NodeOf, family: Family): readonly string[] {
  const own = factOf(node, family, 'address');
  const seen = (node.addresses ?? []).filter((address) => address.includes(':') === (family === 'ipv6'));
  return [...new Set([...(own === undefined ? [] : [own]), ...seen])];
}

/** The values with which guards and variables are resolved. */
export function scopeOf({ name, file, profile }: NodeOf, family: Family): Scope {
  return { family, node: name, zone: file.zone, nodeValues: file.values, profileValues: profile.values };
}

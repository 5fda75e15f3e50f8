import {
  type Family,
  type NodeFile,
  type Problem,
  type ProfileFile,
  profileOn,
  type Scope,
  valueOf,
} from '@sluice/bundle';
import type { View } from './view.ts';

/** One node of a view. */
export interface NodeOf {
  readonly name: string;
  readonly file: NodeFile;
  readonly profile: ProfileFile;
}

/** Something that keeps a bundle from being reviewed: nodes would refuse it, so it has no behaviour. */
export class ReviewStopped extends Error {
  override readonly name = 'ReviewStopped';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems[0]?.message ?? 'Cannot review the bundle');
    this.problems = problems;
  }
}

/** The node of that name. It must be there. */
export function nodeOf(view: View, name: string): NodeOf {
  const file = view.nodes.get(name)!;
  return { name, file, profile: profileOn(view.profiles.get(file.profile)!, file) };
}

/** An address or a network that `node.yaml` says of a node. */
export function factOf(node: NodeOf, family: Family, name: 'address' | 'podCIDR'): string | undefined {
  const value = valueOf(node.file.values, family, name);
  return typeof value === 'string' ? value : undefined;
}

/** What guards and variables are resolved with. */
export function scopeOf({ name, file, profile }: NodeOf, family: Family): Scope {
  return { family, node: name, zone: file.zone, nodeValues: file.values, profileValues: profile.values };
}

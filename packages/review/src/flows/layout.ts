import { type Family, type FamilyProgram, linkTree, modeFacts, settledProgram, Stopped } from '@sluice/netfilter';
import type { NodeOf } from '../bundle/node.ts';
import { programOf, sectionsAt } from './program.ts';
import type { NodeProgram } from './planes/plane.ts';
import type { BundleView } from '../bundle/view.ts';

/** The layouts that a node's rules can be linked in. */
const layouts = ['flat', 'tree'] as const;
export type Layout = (typeof layouts)[number];

/**
 * The whole program of a node in one family. Trees depend on all Services together, so none is left out.
 * The other modes have one layout: their rules are few, and the same for any Services.
 * @throws Stopped with the problems of the files
 */
export function wholeProgram(view: BundleView, node: NodeOf, family: Family, layout: Layout): NodeProgram {
  const { paths } = view.index(node.file.profile, family);
  if (layout === 'flat' || !modeFacts[node.profile.mode].hasServiceChains) return programOf(view, node, family, paths);
  return { rules: treeOf(view, node, family, paths) };
}

/**
 * The rules of a node in layout `tree`.
 * @param knowsBpf `TreeOptions.knowsBpf`
 * @throws Stopped with the problems of the files
 */
export function treeOf(
  view: BundleView,
  node: NodeOf,
  family: Family,
  paths: readonly string[],
  knowsBpf = true,
): FamilyProgram {
  return linkedTree(sectionsAt(view, node, family, paths), { family, knowsBpf });
}

/** @throws Stopped with the problems of the files */
export function linkedTree(...args: Parameters<typeof linkTree>): FamilyProgram {
  const { program, problems } = linkTree(...args);
  if (problems.length > 0) throw new Stopped(problems);
  return settledProgram(program);
}

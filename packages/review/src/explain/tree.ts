import type { BundleFiles } from '@sluice/bundle';
import {
  compareText,
  modeFacts,
  isOwnChain,
  serviceKeyOf,
  Stopped,
  tableNames,
  type TableProgram,
  targetOf,
} from '@sluice/netfilter';
import { type BundleView, familiesOfProfile, viewOf } from '../bundle/view.ts';
import { treeOf } from '../flows/layout.ts';
import { nodeOf, orProblems } from '../bundle/node.ts';

/** The node that has a chain of layout `tree` that the linker made. */
interface TreePlace {
  readonly node: string;
  /** Keys of the Service ports that the chain leads to or belongs to. */
  readonly keys: readonly string[];
}

/** The result of a search for a chain. */
interface TreeSearch {
  readonly found?: TreePlace;
  /** The nodes whose rules were linked. */
  readonly nodes: readonly string[];
}

/**
 * Looks for a chain that the linker made (`SLUICE-T-…`, `SLUICE-R-…`, `SLU-GRP-…`). Its name is a digest of its content, so the rules
 * of one node after the other are linked until one has it.
 * @param wanted the only node to look at; left out: the first one of each profile
 */
export function searchTree(files: BundleFiles, chain: string, wanted: string | undefined): TreeSearch {
  const view = orProblems(() => viewOf(files));
  if (!('index' in view)) return { nodes: [] };
  const nodes = nodesToLink(view, wanted);
  for (const node of nodes) {
    const keys = keysOn(view, node, chain);
    if (keys) return { found: { node, keys }, nodes };
  }
  return { nodes };
}

function nodesToLink(view: BundleView, wanted: string | undefined): readonly string[] {
  if (wanted !== undefined) return view.nodes.has(wanted) ? [wanted] : [];
  const first = new Map<string, string>();
  for (const [name, { profile }] of view.nodes)
    if (!first.has(profile) && hasServiceChains(view, profile)) first.set(profile, name);
  return [...first.values()];
}

function hasServiceChains({ profiles }: BundleView, profile: string): boolean {
  const mode = profiles.get(profile)?.mode;
  return mode !== undefined && modeFacts[mode].hasServiceChains;
}

function keysOn(view: BundleView, name: string, chain: string): readonly string[] | undefined {
  const node = nodeOf(view, name);
  for (const family of familiesOfProfile(view, node.file.profile)) {
    // On a kernel without -m bpf each endpoint has a chain, so that all contents and names differ.
    for (const knowsBpf of [true, false]) {
      try {
        const { paths } = view.index(node.file.profile, family);
        const program = treeOf(view, node, family, paths, knowsBpf);
        for (const table of tableNames) {
          const keys = keysBehind(program[table], chain);
          if (keys) return keys;
        }
      } catch (error) {
        if (!(error instanceof Stopped)) throw error;
      }
    }
  }
  return undefined;
}

/** A name without its last two characters, which may differ between nodes. */
const bodyOf = (name: string): string => name.replace(/\.[0-9a-z]{2}$/, '');

function keysBehind({ chains }: TableProgram, query: string): readonly string[] | undefined {
  const names = [...chains.keys()].filter((name) => bodyOf(name) === bodyOf(query));
  if (names.length === 0) return undefined;
  const reached = new Set(names);
  // A group of endpoints belongs to its callers; a fork leads to Services.
  const isOwn = names.some(isOwnChain);
  for (const name of reached)
    for (const next of isOwn ? callersOf(chains, name) : calleesOf(chains, name)) reached.add(next);
  const keys = [...reached]
    .filter((name) => !isOwnChain(name))
    .flatMap((name) =>
      (chains.get(name) ?? []).flatMap((rule) =>
        isOwn && !reached.has(targetOf(rule) ?? '') ? [] : (serviceKeyOf(rule) ?? []),
      ),
    );
  return [...new Set(keys)].toSorted(compareText);
}

const calleesOf = (chains: TableProgram['chains'], name: string): readonly string[] =>
  (chains.get(name) ?? [])
    .flatMap((rule) => targetOf(rule) ?? [])
    .filter((next) => !isOwnChain(next) && chains.has(next));

/** Stops at the rules that lead to the Service. */
const callersOf = (chains: TableProgram['chains'], name: string): readonly string[] =>
  isOwnChain(name)
    ? [...chains].filter(([, rules]) => rules.some((rule) => rule.endsWith(` ${name}`))).map(([caller]) => caller)
    : [];

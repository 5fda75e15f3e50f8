import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Family,
  type FamilyProgram,
  type Linked,
  linkFlat,
  linkTree,
  nodesOf,
  type ResolvedRules,
  resolveNode,
  sectionsOf,
  settledProgram,
} from '@sluice/bundle';
import { execa } from 'execa';
import type { Host } from './cluster-host.ts';

const sluice = join(import.meta.dirname, '..', '..', 'bin', 'sluice');

export type Layout = 'flat' | 'tree';

export type Programs = { readonly [F in Family]?: FamilyProgram };

/** What every node of a bundle directory runs, by the node's name, as the linker makes it. */
export function programsOf(bundle: string, layout: Layout = 'flat'): ReadonlyMap<string, Programs> {
  const entries = readdirSync(bundle, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  const files = new Map(paths.map((path) => [path.slice(bundle.length + 1), readFileSync(path, 'utf8')]));
  return new Map(nodesOf(files).map((node) => [node, programsOfNode(files, node, layout)]));
}

function programsOfNode(files: ReadonlyMap<string, string>, node: string, layout: Layout): Programs {
  const resolved = resolveNode(files, node);
  if (!('rules' in resolved)) throw new Error(`Cannot resolve ${node}: ${resolved.map((p) => p.message).join('; ')}`);
  const programs: { [F in Family]?: FamilyProgram } = {};
  for (const family of ['ipv4', 'ipv6'] as const) {
    const rules = resolved.rules[family];
    if (!rules) continue;
    const { program, problems } = layout === 'flat' ? linkFlat(rules, family) : linkSettled(rules, family);
    if (problems.length > 0) throw new Error(`Cannot link ${node}: ${problems.map((p) => p.message).join('; ')}`);
    programs[family] = program;
  }
  return programs;
}

function linkSettled(rules: ResolvedRules, family: Family): Linked {
  const { program, problems } = linkTree(sectionsOf(rules), { family });
  return { program: settledProgram(program), problems };
}

const shown = new Map<string, Promise<string>>();

/** The output of `sluice show`, asked for once: the same text is loaded by both backends. */
function show(bundle: string, node: string, tool: string): Promise<string> {
  const key = JSON.stringify([bundle, node, tool]);
  const started =
    shown.get(key) ??
    execa(sluice, ['show', bundle, '--node', node, '--tool', tool]).then(({ stdout }) => `${stdout}\n`);
  shown.set(key, started);
  return started;
}

/**
 * Loads a node's rules and sysctls as a person would in an emergency: `sluice show | iptables-restore`.
 * @param backend which of the two iptables
 */
export async function loadNode(bundle: string, node: Host, backend: 'nft' | 'legacy'): Promise<void> {
  for (const tool of ['iptables', 'ip6tables'] as const) {
    await node.run([`${tool}-${backend}-restore`, '--noflush'], { input: await show(bundle, node.name, tool) });
  }
  const lines = (await show(bundle, node.name, 'sysctl'))
    .split('\n')
    .filter((line) => line.startsWith('net.ipv4.conf.'));
  const values = lines.map((line) => line.split(' = ') as [string, string]);
  await node.sysctl(Object.fromEntries(values.map(([key, value]) => [key.replaceAll('.', '/'), value])));
}

import { orStop } from '@sluice/renderer/commands/failure/failure.ts';
import type { HostFacts, ResolvedNode } from '@sluice/bundle';
import {
  type Family,
  familyOf,
  fillRules,
  linkFlat,
  linkTree,
  modeFacts,
  partOfService,
  printPart,
  printProgram,
  printSection,
  type Problem,
  refusal,
  type ResolvedRules,
  sectionsOf,
  settledProgram,
  Stopped,
  tableNames,
  type Tool,
} from '@sluice/netfilter';
import type { ShownHost } from './host.ts';
import type { Shown, ShownTool } from './tool.ts';

/** The rules of one family. */
export const rulesTool = (tool: Tool): ShownTool => ({
  loader: `${tool}-restore --noflush`,
  text: (node, shown, host) => rulesText(node, tool, shown, host),
  lines: ({ rules }) => tableNames.flatMap((table) => rules[familyOf[tool]]?.[table].rules ?? []),
});

function rulesText(node: ResolvedNode, tool: Tool, options: Shown, host: ShownHost): string {
  const family = familyOf[tool];
  const rules = node.rules[family];
  if (rules === undefined || !modeFacts[node.profile.mode].hasTables) return '';
  const filled = orStop(fillRules(rules, host.values(family)));
  if (options.layout === 'tree') return treeText(node, filled, family, options.service, host.facts);
  if (options.service !== undefined) {
    const sections = tableNames.map((table) => ({ table, ...filled[table] }));
    return sections
      .filter((section) => section.chains.length + section.rules.length > 0)
      .map(printSection)
      .join('');
  }
  const linked = linkFlat(filled, family, undefined, node.profile.mode);
  if (linked.problems.length > 0) throw new Stopped(linked.problems);
  return printProgram(linked.program);
}

function treeText(
  node: ResolvedNode,
  rules: ResolvedRules,
  family: Family,
  service: string | undefined,
  facts: HostFacts | undefined,
): string {
  if (!modeFacts[node.profile.mode].hasServiceChains) throw new Stopped(noTree(node));
  const known = facts ? { knowsBpf: facts.knowsBpf, provideKubeChains: facts.providesKubeChains } : {};
  const linked = linkTree(sectionsOf(rules), { family, ...known });
  if (linked.problems.length > 0) throw new Stopped(linked.problems);
  const program = settledProgram(linked.program);
  if (service === undefined) return printProgram(program);
  return tableNames.map((table) => printPart(table, partOfService(program[table], service))).join('');
}

const noTree = ({ node, profile }: ResolvedNode): Problem =>
  refusal(
    'CONFIG_UNSUPPORTED',
    `Cannot show node ${node} in layout tree: its profile has mode ${profile.mode}`,
    'Remove --layout: layout tree is for mode iptables',
  );

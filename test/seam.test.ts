import { expect, test } from 'vitest';
import { parseAst } from 'vitest/node';
import { filesOutsideOfPlanes, inEach } from './source-files.ts';

/**
 * Rule text is read in `packages/netfilter`, in the files of the data planes and by the tools of the kernel alone; everything else asks
 * the typed view of Services. A reader elsewhere knows the forms of one mode, and forgets the next.
 *
 * Reading means comparing: a regular expression, or a text that is compared, looked up or split with. Text that is written (messages,
 * rules) is no such thing, and neither are comments.
 */

/** What is in rule text of some data plane, or of the tools that print it, also inside of a regular expression; connections have `dport=`. */
const ruleForms =
  /(?:^|[^\w-])-[ADIN] (?:[\w$({[:-]|$)|\bKUBE-|\bSLU(?:ICE)?-|\b(?:add|delete|insert) (?:element|rule)\b|--(?:to-destination|[ds]port|match-set|comment)\b|\bnat\.rules|(?:^|\s)-(?:\[\w*j\w*\]|j|g) |\bdnat to\b|\b[ds]port\b(?!=)|\bdaddr\b/;

/** Methods and constructors whose first argument is compared with something. */
const comparers: ReadonlySet<unknown> = new Set(
  `startsWith endsWith includes indexOf lastIndexOf split replace replaceAll match matchAll search test exec has get RegExp Set`.split(
    ' ',
  ),
);

/** What a text may be made of: of each part may be asked whether it is rule text. */
const textKinds: ReadonlySet<string> = new Set([
  'TemplateLiteral',
  'TaggedTemplateExpression',
  'ArrayExpression',
  'BinaryExpression',
  'ConditionalExpression',
  'TSAsExpression',
]);

/** A node of a syntax tree in the form of ESTree, as far as this test looks. */
interface SyntaxNode {
  readonly type: string;
  readonly [key: string]: unknown;
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

const childrenOf = (node: SyntaxNode): readonly SyntaxNode[] => Object.values(node).flat().filter(isNode);

const nodesIn = (node: SyntaxNode): readonly SyntaxNode[] => [node, ...childrenOf(node).flatMap(nodesIn)];

/** The texts and the patterns that a program compares other texts with. */
function comparedTexts(source: string): readonly string[] {
  const program: unknown = parseAst(source, { lang: 'ts' });
  const nodes = isNode(program) ? nodesIn(program) : [];
  const values = new Map<unknown, SyntaxNode>();
  for (const { type, id, init } of nodes)
    if (type === 'VariableDeclarator' && isNode(id) && isNode(init)) values.set(id.name, init);
  const patterns = nodes.flatMap(({ regex }) => (regex ? [(regex as { readonly pattern: string }).pattern] : []));
  return [...patterns, ...nodes.flatMap(operandsOf).flatMap((operand) => textsOf(operand, values))];
}

/** The parts of a node that are compared with other texts. */
function operandsOf(node: SyntaxNode): readonly SyntaxNode[] {
  switch (node.type) {
    case 'CallExpression':
    case 'NewExpression': {
      const { callee } = node;
      const name = isNode(callee) && isNode(callee.property) ? callee.property.name : isNode(callee) && callee.name;
      return comparers.has(name) ? [node.arguments].flat().slice(0, 1).filter(isNode) : [];
    }
    case 'BinaryExpression':
      return /^[!=]==?$/.test(String(node.operator)) ? [node.left, node.right].filter(isNode) : [];
    case 'SwitchCase':
      return [node.test].filter(isNode);
    default:
      return [];
  }
}

/** The texts in an operand; of a constant of this file, those of its value. */
function textsOf(operand: SyntaxNode, values: ReadonlyMap<unknown, SyntaxNode>): readonly string[] {
  if (operand.type === 'Literal') return typeof operand.value === 'string' ? [operand.value] : [];
  if (operand.type === 'TemplateElement') return [(operand.value as { readonly raw: string }).raw];
  const value = operand.type === 'Identifier' ? values.get(operand.name) : undefined;
  if (value) return textsOf(value, new Map());
  return textKinds.has(operand.type) ? childrenOf(operand).flatMap((child) => textsOf(child, values)) : [];
}

/** Files that read rule text, with the reason. */
const reading: Readonly<Record<string, string>> = {
  ...inEach('foreign rules of iptables or nft, as their tool prints them: no view of Services has these', [
    'applier/src/apply/order/early-rules.ts',
    'review/src/parity/foreign.ts',
  ]),
  ...inEach('the edge: what a tool prints, or is given', [
    'applier/src/diagnose/doctor/redact.ts',
    'applier/src/diagnose/examine/live.ts',
    'applier/src/diagnose/examine/tables.ts',
    'applier/src/kernel/knows-sets.ts',
    'applier/src/kernel/scratch/lines.ts',
    'applier/src/kernel/scratch/load.ts',
    'applier/src/kernel/switch.ts',
    'applier/src/kernel/tools.ts',
    'applier/src/move/kube-proxy/rules.ts',
    'bundle/src/observation/digest.ts',
    'bundle/src/observation/rule-lines.ts',
    'bundle/src/observation/saved-doubts.ts',
    'bundle/src/read-rulefile.ts',
    'review/src/commands/input/observation.ts',
  ]),
  ...inEach('one entry of a table by mode or tool, the others are beside it', [
    'applier/src/apply/counts/rule-counts.ts',
    'review/src/bundle/matches.ts',
    'review/src/bundle/text-matches.ts',
    'review/src/cost/table-cost.ts',
    'review/src/explain/table.ts',
  ]),
  ...inEach('explains lines that an operator read in a kernel or in a file', [
    'review/src/emit/explain.ts',
    'review/src/explain/explain.ts',
    'review/src/explain/service.ts',
  ]),
  ...inEach('files of all modes line by line: a parse of 10,000 Services costs too much here', [
    'applier/src/apply/endpoints/active-files.ts',
    'renderer/src/render/quarantine/frontends.ts',
    'review/src/flows/own-nodes.ts',
    'review/src/flows/shapes.ts',
    'review/src/policy/extent.ts',
  ]),
  ...inEach('base rules of iptables that kube-proxy writes, by their chains: mode nftables has none', [
    'review/src/bundle/memory.ts',
    'review/src/flows/base-treatment.ts',
    'review/src/flows/destinations.ts',
  ]),
  ...inEach('an observation of a kube-proxy, whose rules are in its own chains and sets', [
    'review/src/observed/parts.ts',
  ]),
};

const readsRules = (source: string): boolean => comparedTexts(source).some((text) => ruleForms.test(text));

test('no file outside of netfilter and the planes reads rule text, except for a reason', () => {
  const found = filesOutsideOfPlanes.filter(({ path, text }) => !path.startsWith('netfilter/') && readsRules(text));
  expect(found.map(({ path }) => path).toSorted()).toEqual(Object.keys(reading).toSorted());
});

test.each([
  [`const ports = /^-A KUBE-NODEPORTS .*--dport (\\d+)/.exec(line);`],
  [`if (line.startsWith('add element inet sluice health4 ')) found(line);`],
  ['const form = new RegExp(`^-A ${chain} .* -j ACCEPT$`);'],
  [`const start = '-A KUBE-SERVICES '; const own = lines.filter((line: string) => line.startsWith(start));`],
  [`const names = new Set(['KUBE-MARK-MASQ', 'x']);`],
  [`switch (chain) { case 'KUBE-FORWARD': go(); }`],
  [`const isFile = path.endsWith('/nat.rules');`],
  [`const to = / --to-destination (\\S+)$/;`],
  [`const isJump = / -[jg] (\\S+)/;`],
])('takes for reading: %s', (source) => {
  expect(readsRules(source)).toBe(true);
});

test.each([
  ['// if (line.startsWith("-A KUBE-SERVICES "))\nconst x = 1;'],
  ['const advice = `Remove the rule: iptables -t nat -D ${rule}`;'],
  [`lines.push('-A KUBE-SERVICES -j KUBE-NODEPORTS');`],
  [`const path = text.startsWith('profiles/');`],
])('does not: %s', (source) => {
  expect(readsRules(source)).toBe(false);
});

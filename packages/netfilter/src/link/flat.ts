import type { Mode } from '../rules/mode-facts.ts';
import { FileProblems, type Problem } from '../problem.ts';
import type { Family, TableName } from '../family.ts';
import { printRule } from '../rules/print.ts';
import { readRule } from '../rules/read.ts';
import { isRuleError, type Rule, type RuleError } from '../rules/rule.ts';
import { targetOf } from '../rules/words.ts';
import { hasOptionalComment, refuseChain, tablesOf, unlinkable, withoutComment } from './check.ts';
import { chainsInCircle } from './circle.ts';
import { jumpsOf } from './jumps.ts';
import type { FamilyProgram, ResolvedRules, TableProgram } from './program.ts';

/** A program, and the problems of rules that were left out. Only a program without problems may be loaded. */
export interface LinkedFlat {
  readonly program: FamilyProgram;
  /** `RULE_REFUSED`, in the order of the rules. */
  readonly problems: readonly Problem[];
}

/**
 * Above this number of endpoints kube-proxy leaves comments out of rules per endpoint. It also counts endpoints that this node does not
 * use (not ready, excluded by hints), which the rules do not show. Only comments differ.
 */
const largeCluster = 1_000;

/**
 * Links a node's rules as kube-proxy would write them: each rule in its chain, chains under their names in the files, and jumps from the
 * built-in chains to the base chains that the rules declare.
 *
 * Rules are spelled as iptables-save prints them, so that most of a kernel's rules equal the program's as text; only the rest is
 * compared by meaning.
 *
 * Every line is read by the closed grammar first; every chain that is named must be declared, and must be one of
 * kube-proxy's. With more than 1,000 endpoints the comments of endpoint rules are left out, as kube-proxy does
 * (`largeClusterEndpointsThreshold`).
 *
 * @param read `readLine`, or a cache in front of it
 * @param mode of the profile: it decides which base chains and jumps there are
 */
export function linkFlat(
  rules: ResolvedRules,
  family: Family,
  read: ReadLine = readLine,
  mode: Mode = 'iptables',
): LinkedFlat {
  const problems = new FileProblems();
  const bare = rules.nat.chains.filter((chain) => chain.startsWith('KUBE-SEP-')).length > largeCluster;
  const link = (table: TableName): TableProgram =>
    linkTable(table, rules[table], { family, bare, problems, read, mode });
  return { program: { filter: link('filter'), nat: link('nat') }, problems: problems.all };
}

/** One rule, as far as linking needs it. */
export interface LinkRule extends Pick<Rule, 'chain' | 'target'> {
  /** As iptables-save prints it. */
  readonly text: string;
  /** The same in a large cluster. */
  readonly bare: string;
}

type ReadLine = (text: string, family: Family) => LinkRule | RuleError;

/**
 * Reads one line of a rule file, `-A CHAIN …`, by the closed grammar of `rules`.
 * @returns the rule with its canonical text, or why the line is refused
 */
export function readLine(text: string, family: Family): LinkRule | RuleError {
  const rule = readRule(text, family);
  if (isRuleError(rule)) return rule;
  const printed = printRule(rule, family);
  const { chain, target } = rule;
  const bare = hasOptionalComment(rule) ? printRule(withoutComment(rule), family) : printed;
  return { chain, ...(target ? { target } : {}), text: printed, bare };
}

interface FlatLinking {
  readonly read: ReadLine;
  readonly mode: Mode;
  readonly family: Family;
  /** Leave the optional comments out. */
  readonly bare: boolean;
  readonly problems: FileProblems;
}

/** A chain that is being filled. */
interface Filling {
  readonly rules: string[];
  /** The chains that its rules jump to. */
  readonly targets: string[];
}

function linkTable(table: TableName, resolved: ResolvedRules[TableName], linking: FlatLinking): TableProgram {
  const { family, bare, problems, read, mode } = linking;
  const filling = new Map<string, Filling>();
  for (const chain of resolved.chains) {
    const error = filling.has(chain) ? 'it is declared twice' : refuseChain(table, chain, mode);
    if (error === undefined) filling.set(chain, { rules: [], targets: [] });
    else problems.add(unlinkable(`Cannot link chain ${chain} of ${family} ${table}: ${error}`));
  }
  for (const text of resolved.rules) {
    const rule = read(text, family);
    const error = 'error' in rule ? rule.error : append(rule, bare ? rule.bare : rule.text, table, filling);
    if (error !== undefined) problems.add(unlinkable(`Cannot link rule "${text}" of ${family} ${table}: ${error}`));
  }
  const chains = new Map<string, readonly string[]>();
  const targets = new Map<string, readonly string[]>();
  for (const [chain, filled] of filling) {
    chains.set(chain, filled.rules);
    targets.set(chain, filled.targets);
  }
  const circle = chainsInCircle(targets).slice(0, 3).join(', ');
  if (circle !== '') problems.add(unlinkable(`Cannot link ${family} ${table}: chains form a loop (${circle})`));
  return { chains, jumps: jumpsOf[mode][table].filter((jump) => chains.has(targetOf(jump) ?? '')) };
}

/** Appends a rule to its chain; returns why it cannot. */
function append(
  { chain, target }: LinkRule,
  text: string,
  table: TableName,
  filling: ReadonlyMap<string, Filling>,
): string | undefined {
  const own = filling.get(chain);
  if (!own) return `chain ${chain} is not declared in this table`;
  if (target) {
    const leads = 'chain' in target;
    if (leads && !filling.has(target.chain)) {
      return `it jumps to chain ${target.chain}, which is not declared in this table`;
    }
    const tables: readonly TableName[] = tablesOf[target.kind];
    if (!tables.includes(table)) return `its target is valid only in the ${tables.join(' or ')} table`;
    if (leads) own.targets.push(target.chain);
  }
  own.rules.push(text);
  return undefined;
}

import type { Problem } from './problem.ts';

export type Family = 'ipv4' | 'ipv6';
export type TableName = 'filter' | 'nat';

/** The tools whose files a bundle has, each with the family of its rules. */
export const familyOf = { iptables: 'ipv4', ip6tables: 'ipv6' } as const satisfies Record<string, Family>;
export type Tool = keyof typeof familyOf;

/** On which nodes a rule stands. README.md, "Guards". */
export type Guard =
  | { readonly kind: 'zone' | 'node'; readonly negated: boolean; readonly values: readonly string[] }
  | { readonly kind: 'local'; readonly negated: boolean; readonly chain: string }
  | { readonly kind: 'ip-in'; readonly negated: boolean; readonly values: readonly string[] };

/** `-A CHAIN …`, perhaps with variables, perhaps only on some nodes. */
export interface GuardedRule {
  readonly guard?: Guard;
  readonly text: string;
}

export interface Section {
  readonly table: TableName;
  /** In order of declaration. */
  readonly chains: readonly string[];
  readonly rules: readonly GuardedRule[];
}

/** A rule file as a value. README.md, "Rule files". */
export interface RuleFile {
  /** For people, without the leading `# `. */
  readonly header: readonly string[];
  /** `filter` before `nat`; a table without chains and rules is absent. */
  readonly sections: readonly Section[];
}

/** The text of a rule file. `readRuleFile(printRuleFile(f))` is `f`. */
export function printRuleFile(file: RuleFile): string {
  const lines: string[] = file.header.map((line) => (line === '' ? '#' : `# ${line}`));
  for (const section of file.sections) {
    if (section.chains.length === 0 && section.rules.length === 0) continue;
    lines.push(`*${section.table}`);
    for (const chain of section.chains) lines.push(`:${chain} - [0:0]`);
    for (const rule of section.rules) lines.push(rule.guard ? `${printGuard(rule.guard)} ${rule.text}` : rule.text);
    lines.push('COMMIT');
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

export function printGuard(guard: Guard): string {
  switch (guard.kind) {
    case 'local':
      return `@${guard.negated ? 'nolocal' : 'local'}=${guard.chain}`;
    case 'ip-in':
      return `@${guard.negated ? 'ip-not-in' : 'ip-in'}=${guard.values.join(',')}`;
    case 'zone':
    case 'node':
      return `@${guard.kind}${guard.negated ? '!=' : '='}${guard.values.join(',')}`;
  }
}

const declaration = /^:([A-Z0-9][A-Za-z0-9-]{0,27}) - \[0:0\]$/;
const guardForm = /^@(zone|node|local|nolocal|ip-in|ip-not-in)(!?=)(\S+)$/;

/**
 * Reads the text of a rule file.
 * @param path named in problems; lines count from 1
 * @returns the file, or every problem in it (`BUNDLE_INVALID`). The rules' own grammar is checked by `readRule`, not here.
 */
export function readRuleFile(path: string, text: string): RuleFile | readonly Problem[] {
  const problems: Problem[] = [];
  const header: string[] = [];
  const sections: { table: TableName; chains: string[]; rules: GuardedRule[] }[] = [];
  let open: (typeof sections)[number] | undefined;
  const lines = text.split('\n');
  const complain = (index: number, message: string): void => {
    problems.push({
      code: 'BUNDLE_INVALID',
      level: 'error',
      at: { file: path, line: index + 1, column: 1 },
      message: `Cannot read rule file: ${message}`,
      hint: 'Rule files are written by `sluice render`; render again rather than edit them',
    });
  };
  const last = lines.pop();
  if (last !== '') complain(lines.push(last ?? '') - 1, 'the last line has no end');
  for (const [index, line] of lines.entries()) {
    if (line.startsWith('#')) {
      if (!open && sections.length === 0) header.push(line.slice(line.startsWith('# ') ? 2 : 1));
    } else if (line === '*filter' || line === '*nat') {
      const table = line === '*nat' ? 'nat' : 'filter';
      if (open || sections.some((s) => s.table === table || s.table === 'nat'))
        complain(index, `section ${line} is out of place`);
      sections.push((open = { table, chains: [], rules: [] }));
    } else if (!open) {
      complain(index, 'a line stands outside a section');
    } else if (line === 'COMMIT') {
      open = undefined;
    } else if (line.startsWith(':')) {
      const name = declaration.exec(line)?.[1];
      if (name === undefined) complain(index, 'a chain declaration is not of the form `:NAME - [0:0]`');
      else if (open.rules.length > 0) complain(index, 'a chain is declared after a rule');
      else if (open.chains.includes(name)) complain(index, `chain ${name} is declared twice`);
      else open.chains.push(name);
    } else {
      const rule = readGuardedRule(line);
      if (typeof rule === 'string') complain(index, rule);
      else open.rules.push(rule);
    }
  }
  if (open) complain(lines.length - 1, `section *${open.table} has no COMMIT`);
  return problems.length > 0 ? problems : { header, sections };
}

/** A rule with its guard, or what is wrong with it. */
function readGuardedRule(line: string): GuardedRule | string {
  if (line.startsWith('-A ')) return { text: line };
  const space = line.indexOf(' ');
  const match = guardForm.exec(space < 0 ? line : line.slice(0, space));
  const text = line.slice(space + 1);
  if (!match || !text.startsWith('-A ')) return 'a line is neither a rule, a guarded rule nor COMMIT';
  const [, word, operator, value] = match as unknown as [string, string, string, string];
  const negated = operator === '!=';
  if (word === 'zone' || word === 'node') return { guard: { kind: word, negated, values: value.split(',') }, text };
  if (negated) return `guard @${word} has no form with !=`;
  if (word === 'local' || word === 'nolocal')
    return { guard: { kind: 'local', negated: word === 'nolocal', chain: value }, text };
  return { guard: { kind: 'ip-in', negated: word === 'ip-not-in', values: value.split(',') }, text };
}

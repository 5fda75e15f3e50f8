import type { TableName } from '@sluice/netfilter';

/** The condition for a rule to apply to a node. README.md, "Guards". */
export type Guard =
  | { readonly kind: 'zone' | 'node'; readonly negated: boolean; readonly values: readonly string[] }
  | { readonly kind: 'local'; readonly negated: boolean; readonly chain: string }
  | { readonly kind: 'ip-in'; readonly negated: boolean; readonly values: readonly string[] };

/** `-A CHAIN …`, optionally with variables, optionally for some nodes only. */
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
  /** The comment lines at the top, without the leading `# `. */
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

/** A guard as it stands before a line: `@zone=a,b`, `@nolocal=KUBE-SVL-…`. README.md, "Guards". */
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

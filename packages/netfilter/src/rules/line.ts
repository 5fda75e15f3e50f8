/** Whether a line of `iptables-save`, `iptables -S` or of a file appends a rule: others declare chains, or begin and end tables. */
export const isRuleLine = (line: string): boolean => line.startsWith('-A ');

/** The rules of a text, in their order. */
export const ruleLinesOf = (lines: readonly string[]): readonly string[] => lines.filter(isRuleLine);

/** The words that remove a rule `-A CHAIN …`, for iptables and iptables-restore: `-D CHAIN …`. */
export const deletionOf = (rule: string): string => rule.replace(/^-A /, '-D ');

/** The chain that a line `-A CHAIN …` appends to. */
export function chainOf(rule: string): string {
  const end = rule.indexOf(' ', 3);
  return end < 0 ? rule.slice(3) : rule.slice(3, end);
}

/**
 * The target of a rule's `-j` or `-g`; undefined when it has none. A target ends its line (`readRule` enforces it), so the last match
 * is the target even if a comment contains one.
 */
export function jumpTargetOf(rule: string): string | undefined {
  const start = Math.max(rule.lastIndexOf(' -j '), rule.lastIndexOf(' -g '));
  if (start < 0) return undefined;
  const end = rule.indexOf(' ', start + 4);
  return end < 0 ? rule.slice(start + 4) : rule.slice(start + 4, end);
}

/** The set that a rule looks up, as the switch of layout `tree` does; undefined without one. */
export const setOf = (rule: string): string | undefined => / --match-set (\S+) /.exec(rule)?.[1];

import { type Guard, type GuardedRule, printGuard } from '@sluice/bundle';

/** A line of a file without sections: `.ipset`, `.ipvs`, `.nft`. */
export type GuardedLine = GuardedRule;

/** A line for the nodes of the guard; undefined: for all nodes. */
export function lineWhere(guard: Guard | undefined, text: string): GuardedLine {
  return guard ? { guard, text } : { text };
}

/** The text of a file without duplicate lines; `''` when there are none. */
export function printLines(header: readonly string[], lines: readonly GuardedLine[]): string {
  if (lines.length === 0) return '';
  const texts = lines.map(({ guard, text }) => (guard ? `${printGuard(guard)} ${text}` : text));
  return [...header.map((line) => `# ${line}`), ...new Set(texts)].map((line) => `${line}\n`).join('');
}

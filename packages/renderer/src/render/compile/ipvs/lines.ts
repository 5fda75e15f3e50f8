import { type Guard, printGuard } from '@sluice/bundle';

/** A line of an `.ipset` or `.ipvs` file, perhaps only on some nodes. */
export interface Line {
  readonly guard?: Guard;
  readonly text: string;
}

/** The line on the nodes of the guard; no guard: on all. */
export function lineWhere(guard: Guard | undefined, text: string): Line {
  return guard ? { guard, text } : { text };
}

/** The text of an `.ipset` or `.ipvs` file; `''` when it would say nothing. A line that is there already is not said again. */
export function printLines(header: readonly string[], lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  const texts = lines.map(({ guard, text }) => (guard ? `${printGuard(guard)} ${text}` : text));
  return [...header.map((line) => `# ${line}`), ...new Set(texts)].map((line) => `${line}\n`).join('');
}

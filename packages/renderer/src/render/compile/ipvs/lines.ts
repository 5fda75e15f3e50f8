import { type Guard, printGuard } from '@sluice/bundle';

/** A line of an `.ipset` or `.ipvs` file, optionally guarded. */
export interface IpvsLine {
  readonly guard?: Guard;
  readonly text: string;
}

/** A line for the nodes of the guard; undefined: for all nodes. */
export function lineWhere(guard: Guard | undefined, text: string): IpvsLine {
  return guard ? { guard, text } : { text };
}

/** The text of an `.ipset` or `.ipvs` file without duplicate lines; `''` when there are none. */
export function printLines(header: readonly string[], lines: readonly IpvsLine[]): string {
  if (lines.length === 0) return '';
  const texts = lines.map(({ guard, text }) => (guard ? `${printGuard(guard)} ${text}` : text));
  return [...header.map((line) => `# ${line}`), ...new Set(texts)].map((line) => `${line}\n`).join('');
}

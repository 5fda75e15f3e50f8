import { limits } from '../limits.ts';

/**
 * The end of what a check printed, as one line of printable text for logs, histories and alarms: whatever a server answers, it cannot
 * break a line or a terminal.
 * @returns empty for nothing, else in quotes and at most `limits.probeExcerptCharsMax` characters of it
 */
export function excerpt(text: string): string {
  const plain = text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^\x20-\x7e]/g, '?');
  if (plain === '') return '';
  const most = limits.probeExcerptCharsMax;
  return plain.length <= most ? `"${plain}"` : `"${plain.slice(0, most)}…"`;
}

/** A sentence with what was printed behind it. */
export function withExcerpt(seen: string, text: string): string {
  const said = excerpt(text);
  return said === '' ? seen : `${seen}: ${said}`;
}

import { limits } from '../limits.ts';

/**
 * The beginning of a probe's output as one line of printable text, for logs, history and alarms: no answer of a server can break a line or
 * a terminal.
 * @returns empty for no output, else at most `limits.probeExcerptCharsMax` characters in quotes
 */
function excerpt(text: string): string {
  const plain = text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^\x20-\x7e]/g, '?');
  if (plain === '') return '';
  const most = limits.probeExcerptCharsMax;
  return plain.length <= most ? `"${plain}"` : `"${plain.slice(0, most)}…"`;
}

/** Adds the output to a sentence. */
export function withExcerpt(seen: string, text: string): string {
  const quoted = excerpt(text);
  return quoted === '' ? seen : `${seen}: ${quoted}`;
}

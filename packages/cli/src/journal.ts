/** What an entry of a log is worth. */
export type Severity = 'critical' | 'error' | 'warning' | 'info' | 'debug';

/** sd-daemon(3): systemd takes `<N>` at the start of a line for its priority, by the severities of syslog (RFC 5424, section 6.2.1). */
export const priorities: Readonly<Record<Severity, number>> = { critical: 2, error: 3, warning: 4, info: 6, debug: 7 };

/**
 * Whether a stream is read by the journal.
 * @param journalStream JOURNAL_STREAM, which systemd.exec(5) sets to device and inode of the stream that it has connected. A program that
 * redirected the stream since still has the variable, so that alone says nothing.
 * @param stat fstat of the stream; it may throw, as it does for one that is closed
 */
export function isJournal(
  journalStream: string | undefined,
  stat: () => { readonly dev: number; readonly ino: number },
): boolean {
  if (journalStream === undefined) return false;
  try {
    const { dev, ino } = stat();
    return journalStream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** Lines for people as the journal takes them: a problem with its priority, its hint included, everything else as information. */
export function withPriorities(text: string): string {
  let priority = priorities.info;
  const lines = text.split(/(?<=\n)/).map((line) => {
    const isIndented = line.startsWith(' ');
    if (!isIndented) priority = priorityOf(line);
    return `<${priority}>${line}`;
  });
  return lines.join('');
}

/** Of a line as problems are printed: `a.yaml:1:2: warning: …`. */
function priorityOf(line: string): number {
  const [, level] = /^(?:.*?:\d+:\d+: )?(error|warning): /.exec(line) ?? [];
  return priorities[level === 'error' || level === 'warning' ? level : 'info'];
}

/** The severity of a log entry. */
export type Severity = 'critical' | 'error' | 'warning' | 'info' | 'debug';

/** sd-daemon(3): systemd reads `<N>` at the start of a line as its priority, by the severities of syslog (RFC 5424, section 6.2.1). */
export const priorities: Readonly<Record<Severity, number>> = { critical: 2, error: 3, warning: 4, info: 6, debug: 7 };

/**
 * Whether a stream is connected to the journal.
 * @param journalStream JOURNAL_STREAM, which systemd.exec(5) sets to device and inode of the stream that it has connected. The variable
 * alone is not enough: the stream may have been redirected since.
 * @param stat fstat of the stream; it may throw, as for a closed stream
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

/** Adds priorities for the journal to lines of text: problems with their hints get that of their level, other lines `info`. */
export function withPriorities(text: string): string {
  let priority = priorities.info;
  const lines = text.split(/(?<=\n)/).map((line) => {
    const isIndented = line.startsWith(' ');
    if (!isIndented) priority = priorityOf(line);
    return `<${priority}>${line}`;
  });
  return lines.join('');
}

/** The priority of a printed problem: `a.yaml:1:2: warning: …`. */
function priorityOf(line: string): number {
  const [, level] = /^(?:.*?:\d+:\d+: )?(error|warning): /.exec(line) ?? [];
  return priorities[level === 'error' || level === 'warning' ? level : 'info'];
}

/** The result of one check, with the action to take. */
export interface PreflightFinding {
  readonly level: 'good' | 'note' | 'bad';
  readonly what: string;
  readonly todo: string;
}

const finding = (
  level: PreflightFinding['level'],
  what: string,
  seen: string,
  todo = 'nothing to do',
): PreflightFinding => ({ level, what: `${what} (${seen})`, todo });

export const good = (what: string, seen: string): PreflightFinding => finding('good', what, seen);
export const note = (what: string, seen: string, todo: string): PreflightFinding => finding('note', what, seen, todo);
export const bad = (what: string, seen: string, todo: string): PreflightFinding => finding('bad', what, seen, todo);

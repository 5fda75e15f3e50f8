/** The result of one check, with the action to take. */
export interface PreflightFinding {
  readonly level: 'good' | 'note' | 'bad';
  readonly what: string;
  readonly todo: string;
}

const nothing = 'nothing to do';

export const good = (what: string, seen: string): PreflightFinding => ({
  level: 'good',
  what: `${what} (${seen})`,
  todo: nothing,
});
export const note = (what: string, seen: string, todo: string): PreflightFinding => ({
  level: 'note',
  what: `${what} (${seen})`,
  todo,
});
export const bad = (what: string, seen: string, todo: string): PreflightFinding => ({
  level: 'bad',
  what: `${what} (${seen})`,
  todo,
});

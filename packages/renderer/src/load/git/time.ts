const form = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2}))?$/;

/**
 * A time of RFC 3339, with or without seconds, or a day, whose first moment in UTC is meant.
 * @returns seconds since 1970; undefined for another text, or for a day that does not exist
 */
export function secondsOf(text: string): number | undefined {
  if (!form.test(text)) return undefined;
  const day = text.slice(0, 10);
  const start = new Date(`${day}T00:00:00Z`);
  // `2026-02-30` would be a day of March.
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, 10) !== day) return undefined;
  const milliseconds = text.length === 10 ? start.getTime() : Date.parse(text);
  return Number.isNaN(milliseconds) ? undefined : Math.floor(milliseconds / 1000);
}

/** `2026-11-24T08:00:00Z`; an empty text for a number that is no time. */
export function instantText(seconds: number): string {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : `${time.toISOString().slice(0, -5)}Z`;
}

/** `2026-11-24 08:00:00 UTC` */
export const timeText = (seconds: number): string =>
  instantText(seconds).replace('T', ' ').replace('Z', ' UTC') || 'an unknown time';

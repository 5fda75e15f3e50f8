import { parseKernelRelease } from '@sluice/netfilter';

/** Whether a value of JSON or YAML is a map. */
export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a value of a document is valid. Documents may come from anywhere: texts and lists have a greatest length. */
export type Check = (value: unknown) => boolean;
/** A check of each key's value; any other key is invalid. */
export type Checks = Readonly<Record<string, Check>>;

export const isFlag: Check = (value) => typeof value === 'boolean';
export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
export const isText = (value: unknown, form: RegExp, most: number): value is string =>
  typeof value === 'string' && value.length <= most && form.test(value);
export const hexOf =
  (digits: number): Check =>
  (value) =>
    isText(value, /^[0-9a-f]+$/, digits) && value.length === digits;
/** Printable characters of ASCII. */
export const plainOf =
  (most: number): Check =>
  (value) =>
    isText(value, /^[\x20-\x7e]+$/, most);
/** A DNS subdomain. It is printed, and becomes the name of a file. */
export const isNodeName = (value: unknown): value is string =>
  isText(value, /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/, 253);
/** True for a valid time of the form `2027-01-31T00:00:00Z`. */
export function isInstant(value: unknown): value is string {
  if (!isText(value, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 20)) return false;
  const date = new Date(value);
  // 31 February is read as a day of March, and so is printed as another text.
  return !Number.isNaN(date.getTime()) && date.toISOString() === `${value.slice(0, -1)}.000Z`;
}
export const isKernelRelease: Check = (value) =>
  typeof value === 'string' && value.length <= 64 && parseKernelRelease(value) !== undefined;

export const oneOf =
  (...choices: readonly unknown[]): Check =>
  (value) =>
    choices.includes(value);
export const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
export const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
export const listOf =
  (check: Check, most: number): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every(check);
export const allOf =
  (...options: readonly unknown[]): Check =>
  (value) =>
    Array.isArray(value) && new Set(value).size === value.length && value.every((item) => options.includes(item));
export const recordOf =
  (check: Check): Check =>
  (value) =>
    isMap(value) && Object.values(value).every(check);
export const shape =
  (checks: Checks): Check =>
  (value) =>
    isMap(value) && badKey(value, checks) === undefined;

/** The first key that the checks do not know, or else the first one whose value is missing or not valid. */
export function badKey(value: Readonly<Record<string, unknown>>, checks: Checks): string | undefined {
  return (
    Object.keys(value).find((key) => !Object.hasOwn(checks, key)) ??
    Object.keys(checks).find((key) => checks[key]?.(value[key]) !== true)
  );
}

/** The value of a text of JSON; undefined for any other text. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

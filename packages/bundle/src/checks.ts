import { parseKernelRelease } from '@sluice/netfilter';

/** Whether a value of JSON or YAML is a map. */
export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a value of a document is valid, and of which type it is then. Texts and lists have a greatest length: documents may come from anywhere. */
export type Check<T = unknown> = (value: unknown) => value is T;
type Test = (value: unknown) => boolean;
/** A check of each key's value; any other key is invalid. */
export type Checks = Readonly<Record<string, Test>>;
interface Optional {
  readonly isOptional: true;
}
/** The type of what a check accepts. */
export type Checked<C> = C extends Check<infer T> ? T : unknown;
/** The type of a map whose keys have these checks. */
export type CheckedMap<C extends Checks> = {
  readonly [K in keyof C as C[K] extends Optional ? never : K]: Checked<C[K]>;
} & { readonly [K in keyof C as C[K] extends Optional ? K : never]?: Exclude<Checked<C[K]>, undefined> };

/** A check of the type that a test is for. */
export const checkOf = <T>(is: Test): Check<T> => is as Check<T>;

export const isFlag = checkOf<boolean>((value) => typeof value === 'boolean');
export const isCount = checkOf<number>((value) => Number.isSafeInteger(value) && (value as number) >= 0);
export const textOf = (form: RegExp, most: number): Check<string> =>
  checkOf((value) => typeof value === 'string' && value.length <= most && form.test(value));
export const hexOf = (digits: number): Check<string> => textOf(new RegExp(`^[0-9a-f]{${digits}}$`), digits);
/** Printable characters of ASCII. */
export const plainOf = (most: number): Check<string> => textOf(/^[\x20-\x7e]+$/, most);
/** A DNS subdomain. It is printed, and becomes the name of a file. */
export const isNodeName = textOf(/^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/, 253);
/** True for a valid time of the form `2027-01-31T00:00:00Z`. */
export const isInstant = checkOf<string>((value) => {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value)) return false;
  const date = new Date(value);
  // 31 February is read as a day of March, and so is printed as another text.
  return !Number.isNaN(date.getTime()) && date.toISOString() === `${value.slice(0, -1)}.000Z`;
});
export const isKernelRelease = checkOf<string>(
  (value) => typeof value === 'string' && value.length <= 64 && parseKernelRelease(value) !== undefined,
);

export const oneOf = <const T extends readonly unknown[]>(...choices: T): Check<T[number]> =>
  checkOf((value) => choices.includes(value));
export const optional = <T>(check: Check<T>): Check<T | undefined> & Optional =>
  Object.assign(
    checkOf<T | undefined>((value) => value === undefined || check(value)),
    { isOptional: true } as const,
  );
export const orNull = <T>(check: Check<T>): Check<T | null> => checkOf((value) => value === null || check(value));
export const listOf = <T>(check: Check<T>, most: number): Check<readonly T[]> =>
  checkOf((value) => Array.isArray(value) && value.length <= most && value.every(check));
export const allOf = <const T extends readonly unknown[]>(...options: T): Check<readonly T[number][]> =>
  checkOf(
    (value) =>
      Array.isArray(value) && new Set(value).size === value.length && value.every((item) => options.includes(item)),
  );
export const recordOf = <T>(check: Check<T>): Check<Readonly<Record<string, T>>> =>
  checkOf((value) => isMap(value) && Object.values(value).every(check));
export const shape = <C extends Checks>(checks: C): Check<CheckedMap<C>> =>
  checkOf((value) => isMap(value) && badKey(value, checks) === undefined);

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

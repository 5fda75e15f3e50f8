import { InvalidArgumentError } from 'commander';

/** Parses the value of an option that must not be empty. */
export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('The value is empty.');
  return value;
}

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

/** Parses a percentage from 1 to 100. */
export function percent(value: string): number {
  const number = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > 100) throw new InvalidArgumentError('It is not a percentage from 1 to 100.');
  return number;
}

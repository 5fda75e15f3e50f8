import { InvalidArgumentError } from 'commander';

/** Parses the value of an option that must not be empty. */
export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('The value is empty.');
  return value;
}

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

import { InvalidArgumentError } from 'commander';

/** Parses the value of an option that must not be empty. */
export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('The value is empty.');
  return value;
}

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

/** Makes a parser of whole numbers from 1 to `most`, at most 999,999,999. */
export const upTo =
  (most: number) =>
  (value: string): number => {
    const number = /^[1-9]\d{0,8}$/.test(value) ? Number(value) : 0;
    if (number < 1 || number > most) throw new InvalidArgumentError(`Write a whole number from 1 to ${most}.`);
    return number;
  };

import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/**
 * Finds a program.
 * @param path the variable PATH. Relative directories in it are ignored: a file in the current directory must not become the program
 */
export const findProgram = (name: string, path = ''): string | undefined =>
  path
    .split(delimiter)
    .filter((dir) => isAbsolute(dir))
    .map((dir) => join(dir, name))
    .find((file) => isExecutable(file));

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

import { join } from 'node:path';

/**
 * The path of a program that `vitest.config.ts` built for this run: a file to execute, or to start with `process.execPath` where Node is
 * at another path, as in the emulated guest.
 */
export function programPath(name: 'sluice' | 'sluiced'): string {
  const folder = process.env['SLUICE_PROGRAMS'];
  if (folder === undefined) throw new Error('SLUICE_PROGRAMS is not set: run tests with ./dev test or vitest');
  return join(folder, name);
}

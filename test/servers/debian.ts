import { execFileSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { unpacked } from '../conformance/debian.ts';

/** A program with the variables that it needs. */
export interface FoundProgram {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * A program of the Debian that this machine runs: the installed one, or one unpacked in the cache of tests. An installation would start
 * a service.
 * @returns it, or why it is missing
 * @param packages the first has the program, the others libraries that a machine may lack
 */
export async function debianProgram(
  path: string,
  packages: readonly string[],
): Promise<FoundProgram | { readonly lack: string }> {
  if (existsSync(path)) return { path, env: {} };
  try {
    const root = await unpacked(packages, false);
    const libraries = globSync([join(root, 'usr/lib/*-linux-gnu*'), join(root, 'lib/*-linux-gnu*')]);
    const program = { path: join(root, path), env: { LD_LIBRARY_PATH: libraries.join(':') } };
    const loaded = execFileSync('ldd', [program.path], { encoding: 'utf8', env: { ...process.env, ...program.env } });
    const missing = /^\s*(\S+) => not found/m.exec(loaded)?.[1];
    return missing === undefined ? program : { lack: `${path} needs ${missing}: apt-get install ${packages[0]}` };
  } catch (error) {
    const [why] = String(error instanceof Error ? error.message : error).split('\n', 1);
    return { lack: `${path} is missing and apt cannot download it (${why}): apt-get install ${packages[0]}` };
  }
}

/** The program; skips the test by name where it is missing. */
export async function needProgram(
  context: TestContext,
  path: string,
  packages: readonly string[],
): Promise<FoundProgram> {
  const found = await debianProgram(path, packages);
  if ('lack' in found) context.skip(found.lack);
  return found;
}

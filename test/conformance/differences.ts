import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Verdict } from './judge.ts';
import type { System } from './systems.ts';

/** A test that does not pass, and why that is right. */
export interface NamedDifference {
  /** The beginning of the test's title, or all of it. */
  readonly test: string;
  /** Titles of systems that it is about; all without it. */
  readonly systems?: readonly string[];
  readonly verdict: 'failed' | 'skipped';
  readonly reason: string;
}

/** `differences.yaml`: the only place where a test of Kubernetes may fail or be skipped. */
export const readDifferences = (): readonly NamedDifference[] =>
  parse(readFileSync(join(import.meta.dirname, 'differences.yaml'), 'utf8')) as readonly NamedDifference[];

/** What is named of a test with a system. */
export const namedOf = (system: string, title: string, named = readDifferences()): NamedDifference | undefined =>
  named.find(({ test, systems }) => title.startsWith(test) && (systems?.includes(system) ?? true));

/**
 * What is not as it should be: tests that do not pass and are not named, with their message, and tests that are named and pass.
 * @param named those of `differences.yaml`
 */
export function differencesOf(
  system: Pick<System, 'title'>,
  verdicts: ReadonlyMap<string, Verdict>,
  failures: ReadonlyMap<string, string>,
  named = readDifferences(),
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [title, verdict] of verdicts) {
    const expected = namedOf(system.title, title, named)?.verdict ?? 'passed';
    if (verdict !== expected)
      found.set(title, expected === 'passed' ? (failures.get(title) ?? verdict) : `${verdict}, named as ${expected}`);
  }
  return found;
}

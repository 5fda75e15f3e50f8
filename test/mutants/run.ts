/**
 * `./dev mutants [TEXT]`: applies the mutants of `mutants.ts`, one at a time and in a copy of the checkout, and runs tests until one fails.
 * TEXT selects those with it in their file or harm. Exits with 1 where a mutant survives its tests.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkoutParts } from '../checkout-parts.ts';
import { type Mutant, mutants } from './mutants.ts';

const root = join(import.meta.dirname, '..', '..');
const parts = [...checkoutParts, 'vitest.config.ts'];

/** The detection of a mutant: the tier whose number of runs was enough, and the name of the test. */
type Detection = { readonly tier: 'quick' | 'test'; readonly test: string } | undefined;

function main(wanted: string): void {
  const copy = mkdtempSync(join(tmpdir(), 'sluice-mutants-'));
  try {
    for (const part of parts) cpSync(join(root, part), join(copy, part), { recursive: true, verbatimSymlinks: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const chosen = mutants.filter(({ file, harm }) => `${file} ${harm}`.includes(wanted));
    const survivors = chosen.filter((mutant) => !reportDetection(mutant, detect(copy, mutant)));
    process.stdout.write(`${chosen.length - survivors.length} passed, ${survivors.length} failed\n`);
    process.exitCode = survivors.length === 0 ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function reportDetection({ file, harm }: Mutant, detection: Detection): boolean {
  const by = detection === undefined ? 'SURVIVED' : `${detection.tier}: ${detection.test}`;
  process.stdout.write(`${file}: ${harm}\n  ${by}\n`);
  return detection !== undefined;
}

function detect(copy: string, { file, from, to, tests }: Mutant): Detection {
  const path = join(copy, file);
  const text = readFileSync(path, 'utf8');
  writeFileSync(
    path,
    text.replace(from, () => to),
  );
  try {
    for (const tier of ['quick', 'test'] as const) {
      const test = firstFailure(copy, tier, tests);
      if (test !== undefined) return { tier, test };
    }
    return undefined;
  } finally {
    writeFileSync(path, text);
  }
}

function firstFailure(copy: string, tier: string, tests: readonly string[]): string | undefined {
  const env = { ...process.env, SLUICE_TIER: tier, SLUICE_FILES: tests.join(' '), NO_COLOR: '1' };
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--bail=1', '--project', 'unit'];
  const { status, stdout, stderr } = spawnSync(process.execPath, vitest, {
    cwd: copy,
    env,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status === 0) return undefined;
  const [, name] = /^ *FAIL +(.+)$/m.exec(`${stdout}\n${stderr}`) ?? [];
  if (name === undefined) throw new Error(`Cannot run ${tests.join(' ')} with a mutant:\n${stderr.slice(-2000)}`);
  return name;
}

main(process.argv[2] ?? '');

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { type JunitCase, junitDocument } from '../../packages/cli/src/findings/junit.ts';
import { namedOf, type NamedDifference } from './differences.ts';
import type { Judgement, Verdict } from './judge.ts';

/** The last run of all tests with one system: docs/conformance.md is made of these. */
export interface SystemRun {
  readonly system: string;
  /** Of the system: kube-proxy's release, or the commit of Sluice. */
  readonly version: string;
  readonly kubernetes: string;
  readonly kernel: string;
  /** As the variable `SLUICE_RUN_DATE` says it. */
  readonly date: string;
  /** Of the tests, without the start of the cluster. */
  readonly minutes: number;
  /** The tests with the label Conformance alone; all without it. */
  readonly judgedBy?: 'label';
  /** Tests that were run again alone, after all of them. */
  readonly again?: { readonly version: string; readonly date: string; readonly tests: number };
  /** By the title of a test. */
  readonly verdicts: Readonly<Record<string, Verdict>>;
}

const folder = join(import.meta.dirname, 'runs');

/** The name of a file for a system. */
export const slugOf = (system: string): string => system.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');

export interface RunFacts extends Pick<SystemRun, 'system' | 'version' | 'kubernetes' | 'judgedBy'> {
  readonly tookMs: number;
}

/**
 * Writes a run down where `SLUICE_RUN_DATE=2026-11-28` gives the day: a run without a day leaves the page alone.
 * @param isPart of some tests alone: their verdicts replace those of the last run, and its facts stay
 */
export function writeRun(
  { tookMs, ...facts }: RunFacts,
  { verdicts }: Pick<Judgement, 'verdicts'>,
  isPart: boolean,
): void {
  const date = process.env['SLUICE_RUN_DATE'];
  if (date === undefined) return;
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) throw new Error('SLUICE_RUN_DATE has the form 2026-11-28');
  const path = join(folder, `${slugOf(facts.system)}.json`);
  const last = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as SystemRun) : undefined;
  // Those with a label are a part, too, where all were run.
  const hasMore = facts.judgedBy === 'label' && last?.judgedBy === undefined;
  const before = isPart || hasMore ? last : undefined;
  const all = [...Object.entries(before?.verdicts ?? {}).filter(([title]) => !verdicts.has(title)), ...verdicts];
  const sorted = Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const run: SystemRun = {
    ...facts,
    kernel: release().replace(/-.*/, ''),
    date,
    minutes: Math.max(1, Math.round(tookMs / 60_000)),
    ...before,
    ...(before ? { again: { version: facts.version, date, tests: verdicts.size } } : {}),
    verdicts: sorted,
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, `${JSON.stringify(run, null, 2)}\n`);
}

/** kube-proxy first: it is the control. */
export const lastRuns = (): readonly SystemRun[] =>
  readdirSync(folder)
    .toSorted()
    .map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as SystemRun);

/** A run as JUnit: a skip and a failure that are named have their reason. */
export function junitOf(
  { system, verdicts }: Pick<SystemRun, 'system' | 'verdicts'>,
  failures: Judgement['failures'] = new Map(),
): string {
  const cases = Object.entries(verdicts).map(([name, verdict]): JunitCase => {
    if (verdict === 'passed') return { classname: system, name };
    const message = namedOf(system, name)?.reason;
    const isNamed = verdict === 'skipped' || message !== undefined;
    return {
      classname: system,
      name,
      ended: isNamed
        ? { kind: 'skipped', message: message ?? 'without a reason' }
        : { kind: 'failure', type: 'failed', message: failures.get(name) ?? 'failed', text: '' },
    };
  });
  return junitDocument(system, cases);
}

const marks: Readonly<Record<Verdict, string>> = { passed: '✓', failed: '**✗**', skipped: 'skipped' };

/** Two tables: what was run, and each test with its verdict in each run. */
export function conformanceTables(runs: readonly SystemRun[], named: readonly NamedDifference[]): string {
  const count = (run: SystemRun, verdict: Verdict): number =>
    Object.values(run.verdicts).filter((one) => one === verdict).length;
  const ran = runs.map(
    (run, index) =>
      `| ${String.fromCodePoint(65 + index)} | ${run.system} | ${run.version} | ${run.kubernetes} | ${run.kernel} | ${run.date} | ${run.judgedBy === 'label' ? '`[Conformance]`' : 'all'} | ${run.minutes} | ${run.again ? `${run.again.tests} with ${run.again.version}, ${run.again.date}` : ''} | ${count(run, 'passed')} | ${count(run, 'failed')} | ${count(run, 'skipped')} |\n`,
  );
  const letterOf = (system: string): string =>
    String.fromCodePoint(65 + runs.findIndex((run) => run.system === system));
  const reasons = named.map(
    ({ test, verdict, reason, systems }) =>
      `| ${cell(test)} | ${verdict} | ${systems?.map(letterOf).join(', ') ?? 'all'} | ${reason.trim()} |\n`,
  );
  const titles = [...new Set(runs.flatMap(({ verdicts }) => Object.keys(verdicts)))].toSorted();
  const rows = titles.map((title) => {
    const cells = runs.map(({ verdicts: { [title]: verdict } }) =>
      verdict === undefined ? 'not run' : marks[verdict],
    );
    return `| ${cell(title)} | ${cells.join(' | ')} |\n`;
  });
  return `| | system | version | Kubernetes | kernel | on | tests | minutes | again alone | passed | failed | skipped |
|---|---|---|---|---|---|---|---|---|---|---|---|
${ran.join('')}
## Differences

| test | verdict | systems | reason |
|---|---|---|---|
${reasons.join('')}
## Tests

| test of \`[sig-network]\` | ${runs.map((_, index) => String.fromCodePoint(65 + index)).join(' | ')} |
|---|${'---|'.repeat(runs.length)}
${rows.join('')}`;
}

/** What Markdown would read as a link or a tag is code. */
const cell = (title: string): string => `\`${title.replace(/^\[sig-network\] /, '').replaceAll('|', String.raw`\|`)}\``;

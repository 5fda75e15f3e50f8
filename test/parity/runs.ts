import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seed } from '@sluice/testing';
import { type Minor, ofKubernetes } from './binaries.ts';
import type { Examiner } from './outcomes.ts';

/** What was compared last with a kube-proxy: docs/parity-runs.md is made of these. */
export interface ComparedRun {
  readonly kubeProxy: string;
  readonly mode: string;
  /** One state of a cluster each, or changes of one over time. */
  readonly what: 'clusters' | 'clusters with node ports on localhost' | 'histories';
  readonly count: number;
  /** Sent through the kernels of both sides. */
  readonly packets: number;
  /** Differences with a name, and how many questions showed them. */
  readonly named: Readonly<Record<string, number>>;
  /** Questions that showed another one. */
  readonly unnamed: number;
  readonly seed: number;
  /** As the variable `SLUICE_RUN_DATE` says it. */
  readonly date: string;
}

const folder = join(import.meta.dirname, 'runs');

/** Counts a run, and writes it down where `SLUICE_RUN_DATE=2026-11-28` gives the day: a run without a day leaves the page alone. */
export class RunCount {
  readonly #minor: Minor;
  readonly #of: Pick<ComparedRun, 'mode' | 'what'>;
  readonly #named = new Map<string, number>();
  #count = 0;
  #packets = 0;
  #unnamed = 0;

  constructor(minor: Minor, of: Pick<ComparedRun, 'mode' | 'what'>) {
    this.#minor = minor;
    this.#of = of;
  }

  /** Differences with a name. */
  name(name: string, questions: number): void {
    if (questions > 0) this.#named.set(name, (this.#named.get(name) ?? 0) + questions);
  }

  /** One cluster or history that came to its end. @param unnamed questions with a difference of no name */
  note(examiners: readonly Examiner[], unnamed: number): void {
    this.#count += 1;
    this.#unnamed += unnamed;
    for (const { sent } of examiners) this.#packets += sent;
  }

  /** @param count of the run: one that did not come to its end is not written */
  write(count: number): void {
    const date = process.env['SLUICE_RUN_DATE'];
    if (date === undefined || this.#count < count) return;
    if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) throw new Error('SLUICE_RUN_DATE has the form 2026-11-28');
    const run: ComparedRun = {
      kubeProxy: ofKubernetes('kube-proxy', this.#minor).version,
      ...this.#of,
      count,
      packets: this.#packets,
      named: Object.fromEntries([...this.#named].toSorted(([a], [b]) => (a < b ? -1 : 1))),
      unnamed: this.#unnamed,
      seed,
      date,
    };
    writeRun(this.#minor, run);
  }
}

/** The run of which each part had a share of the clusters. @param parts at least one */
export function mergedRun(parts: readonly ComparedRun[]): ComparedRun {
  const total = (of: (one: ComparedRun) => number): number => parts.reduce((sum, one) => sum + of(one), 0);
  const names = [...new Set(parts.flatMap(({ named }) => Object.keys(named)))].toSorted();
  return {
    ...(parts[0] as ComparedRun),
    count: total(({ count }) => count),
    packets: total(({ packets }) => packets),
    named: Object.fromEntries(names.map((name) => [name, total(({ named }) => named[name] ?? 0)])),
    unnamed: total(({ unnamed }) => unnamed),
  };
}

/** Writes it down, in place of the last one of its kind. @param minor of kube-proxy */
export function writeRun(minor: Minor, run: ComparedRun): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, `${minor}-${run.mode}-${run.what.replaceAll(' ', '-')}.json`),
    `${JSON.stringify(run, null, 2)}\n`,
  );
}

/** Those that are written down, the oldest version first. */
export const comparedRuns = (): readonly ComparedRun[] =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .toSorted()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as ComparedRun);

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { tier } from '@sluice/testing';
import type { Reporter, TestModule } from 'vitest/node';
import { emulatedBooter } from '../test/vm/where.ts';
import { knownSeconds } from './longest-first.ts';
import { readPool } from './share.ts';

/** The durations of a test file in milliseconds; the parts add up to `tookMs`. */
export interface FileProfile {
  readonly file: string;
  readonly tookMs: number;
  /** Loading the file, and its hooks, which make namespaces, guests and builds. */
  readonly setUpMs: number;
  /** In test bodies without processor time: sleeps, timeouts, other machines. */
  readonly waitingMs: number;
  /** Processor time in test bodies, of the test and of the programs that it started. */
  readonly workingMs: number;
}

const filesMax = 30;

/** Prints the slowest files of a run. It needs `profile-runner.ts` as the runner. */
export class ProfileReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const lines = profileLines(modules.map(profileOf));
    if (tier === 'all') keepSeconds(secondsOf(modules));
    process.once('exit', () => process.stdout.write(`${lines.join('\n')}\n`));
  }
}

function profileOf(module: TestModule): FileProfile {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } = module.diagnostic();
  const tookMs = environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
  const bodies = [...module.children.allTests()].flatMap((test) => test.meta().profile ?? []);
  const sumMs = bodies.reduce((sum, body) => sum + body.tookMs, 0);
  // Tests of a file may run concurrently: then their sum exceeds the file's duration.
  const inBodiesMs = Math.min(sumMs, duration);
  const share = sumMs === 0 ? 0 : inBodiesMs / sumMs;
  // A body on two processors may have more processor time than duration: then it never waited.
  const workingMs = share * bodies.reduce((sum, body) => sum + Math.min(body.tookMs, body.cpuMs), 0);
  return {
    file: module.relativeModuleId,
    tookMs,
    setUpMs: tookMs - inBodiesMs,
    waitingMs: inBodiesMs - workingMs,
    workingMs,
  };
}

/** Whole seconds per file; for tests in a guest, of the file there. */
function secondsOf(modules: readonly TestModule[]): readonly (readonly [string, number])[] {
  return modules.flatMap((module) => [
    [module.relativeModuleId, Math.ceil(profileOf(module).tookMs / 1000)] as const,
    ...[...module.children.allTests()].flatMap((test) => {
      const { inGuest } = test.meta();
      return inGuest ? [[inGuest.file, inGuest.seconds] as const] : [];
    }),
  ]);
}

const slowSeconds = 5;

/** Writes test/seconds.json for `./dev share` and `longest-first.ts`. Files that did not run keep their value. */
function keepSeconds(measured: readonly (readonly [string, number])[]): void {
  const path = join(import.meta.dirname, '../test/seconds.json');
  const known = Object.entries(knownSeconds());
  const pool = new Set(readPool(join(import.meta.dirname, '..'), {}).map((piece) => piece.path));
  const all = [...new Map([...known, ...measured])].filter(
    ([file, seconds]) => file !== emulatedBooter && (pool.has(file) || seconds >= slowSeconds),
  );
  writeFileSync(
    path,
    `${JSON.stringify(Object.fromEntries(all.toSorted(([a], [b]) => compareText(a, b))), null, 2)}\n`,
  );
}

/** A table of the slowest files in descending order, with the sum of all files as its last line. */
export function profileLines(files: readonly FileProfile[]): readonly string[] {
  const slowest = files.toSorted((a, b) => b.tookMs - a.tookMs).slice(0, filesMax);
  const sum = (of: (file: FileProfile) => number): number => files.reduce((total, file) => total + of(file), 0);
  const all = {
    file: `all ${files.length} files`,
    tookMs: sum(({ tookMs }) => tookMs),
    setUpMs: sum(({ setUpMs }) => setUpMs),
    waitingMs: sum(({ waitingMs }) => waitingMs),
    workingMs: sum(({ workingMs }) => workingMs),
  };
  const seconds = (ms: number): string => (ms / 1000).toFixed(1).padStart(8);
  const row = ({ file, tookMs, setUpMs, waitingMs, workingMs }: FileProfile): string =>
    `${[tookMs, setUpMs, waitingMs, workingMs].map(seconds).join(' ')}  ${file}`;
  return ['seconds:   took   set-up  waiting  working', ...[...slowest, all].map((file) => row(file).trimEnd())];
}

import { readFileSync } from 'node:fs';
import { type ParityReport, readParityReport } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { orStop, reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/** Reads a result of `sluice parity -o json`. @param file `-` for standard input @throws Stopped where it is none */
export function readReport(file: string): ParityReport {
  const text = reading(file, () => readFileSync(file === '-' ? 0 : file, 'utf8'));
  return orStop(readParityReport(file, text));
}

/** Reads results of `sluice parity -o json`. @returns them by node @throws Stopped where one is none, or a node has two */
export function readReports(files: readonly string[]): ReadonlyMap<string, ParityReport> {
  const reports = new Map<string, ParityReport>();
  for (const file of files) {
    const report = readReport(file);
    if (reports.has(report.node)) throw new Stopped(twice(file, report.node));
    reports.set(report.node, report);
  }
  return reports;
}

const twice = (file: string, node: string): Problem =>
  refusal(
    'PARITY_REPORT_INVALID',
    `Cannot use ${file}: another file has a report of node ${node}, too`,
    'Pass one report for each node',
  );

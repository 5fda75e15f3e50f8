import { readFileSync } from 'node:fs';
import { isProblem, type ParityReport, readParityReport } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/** Reads results of `sluice parity -o json`. @returns them by node @throws Stopped where one is none, or a node has two */
export function readReports(files: readonly string[]): ReadonlyMap<string, ParityReport> {
  const reports = new Map<string, ParityReport>();
  for (const file of files) {
    const report = readParityReport(
      file,
      reading(file, () => readFileSync(file, 'utf8')),
    );
    if (isProblem(report)) throw new Stopped(report);
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

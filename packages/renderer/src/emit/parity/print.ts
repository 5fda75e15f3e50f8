import { type ParityReport, printParityReport } from '@sluice/bundle';
import { parityJunit } from './junit.ts';
import { paritySarif } from './sarif.ts';
import { parityText } from './text.ts';

export type ParityFormat = 'text' | 'json' | 'sarif' | 'junit';

/** A report with the names of its files. */
export interface PrintedParity {
  readonly report: ParityReport;
  /** The observation as the user named it. */
  readonly observed: string;
  /** A file of a Service in the bundle, relative to the current directory. */
  readonly fileOf: (service: string) => string | undefined;
  /** Of `sluice`. */
  readonly version: string;
}

/** Prints a comparison of an observed node with a bundle. */
export function printParity(of: PrintedParity, format: ParityFormat): string {
  return writers[format](of);
}

const writers: Readonly<Record<ParityFormat, (of: PrintedParity) => string>> = {
  text: parityText,
  json: ({ report }) => printParityReport(report),
  sarif: paritySarif,
  junit: parityJunit,
};

import type { ParityReport } from '@sluice/bundle';

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

import { printParityReport } from '@sluice/bundle';
import { parityJunit } from './junit.ts';
import type { PrintedParity } from './printed.ts';
import { paritySarif } from './sarif.ts';
import { parityText } from './text.ts';

export type ParityFormat = 'text' | 'json' | 'sarif' | 'junit';

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

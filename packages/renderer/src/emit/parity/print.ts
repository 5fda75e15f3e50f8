import { printParityReport } from '@sluice/bundle';
import { type JunitCase, junitDocument } from '../junit-document.ts';
import type { PrintedParity } from './printed.ts';
import { paritySarif } from './sarif.ts';
import { coverageText, packetText, parityText, resultText } from './text.ts';

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

type Ended = JunitCase['ended'] & {};

/**
 * JUnit XML: a test for each difference, failed unless it is a documented one of modes, which is skipped; one for each thing that was
 * not covered and matters; and one for the whole, which passes if nothing else failed, with what was compared and what not.
 */
function parityJunit({ report }: PrintedParity): string {
  const { differences, coverage, node } = report;
  const different = differences.map(
    ({ cause, code, frontend, family, services, packet, observed, desired, advice, source, id }): JunitCase => {
      const name = `${frontend} ${family} from ${source.network ?? source.class} ${id}`;
      const text = `packet: ${packetText(packet)}\nobserved: ${observed}\ndesired: ${desired}\n${advice}`;
      const message = `${services.join(', ')}: observed ${observed}, desired ${desired}`;
      const ended: Ended =
        cause === 'mode'
          ? { kind: 'skipped', message: `${code ?? ''}: a documented difference of modes` }
          : { kind: 'failure', type: cause, message, text };
      return { classname: node, name, ended };
    },
  );
  const gaps = coverage.notCovered
    .filter(({ matters }) => matters)
    .map(({ what, why, at = '' }): JunitCase => {
      const ended: Ended = { kind: 'failure', type: 'not-covered', message: why, text: at };
      return { classname: node, name: `not covered: ${what}`, ended };
    });
  const ended: Ended = { kind: 'output', text: `${resultText(report)}\n${coverageText(report)}` };
  return junitDocument('sluice parity', [...different, ...gaps, { classname: node, name: 'compared', ended }]);
}

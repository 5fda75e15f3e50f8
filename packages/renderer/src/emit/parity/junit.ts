import { xml } from '../xml.ts';
import type { PrintedParity } from './printed.ts';
import { coverageText, packetText, resultText } from './text.ts';

/**
 * JUnit XML: a test for each difference, failed unless it is a documented one of modes, which is skipped; one for each thing that was
 * not covered and matters; and one for the whole, which passes if nothing else failed, with what was compared and what not.
 */
export function parityJunit({ report }: PrintedParity): string {
  const { differences, coverage, node } = report;
  const cases = [
    ...differences.map(({ cause, code, frontend, family, services, packet, observed, desired, advice, source, id }) => {
      const name = `${frontend} ${family} from ${source.network ?? source.class} ${id}`;
      const text = `packet: ${packetText(packet)}\nobserved: ${observed}\ndesired: ${desired}\n${advice}`;
      const inside =
        cause === 'mode'
          ? `<skipped message="${xml(`${code ?? ''}: a documented difference of modes`)}"/>`
          : `<failure type="${cause}" message="${xml(`${services.join(', ')}: observed ${observed}, desired ${desired}`)}">${xml(text)}</failure>`;
      return testCase(node, name, inside);
    }),
    ...coverage.notCovered
      .filter(({ matters }) => matters)
      .map(({ what, why, at = '' }) =>
        testCase(
          node,
          `not covered: ${what}`,
          `<failure type="not-covered" message="${xml(why)}">${xml(at)}</failure>`,
        ),
      ),
    testCase(node, 'compared', `<system-out>${xml(`${resultText(report)}\n${coverageText(report)}`)}</system-out>`),
  ];
  const count = (tag: string): number => cases.filter((text) => text.includes(`<${tag} `)).length;
  const counts = `tests="${cases.length}" failures="${count('failure')}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites ${counts}>\n`,
    `  <testsuite name="sluice parity" ${counts} errors="0" skipped="${count('skipped')}">\n`,
    ...cases,
    '  </testsuite>\n',
    '</testsuites>\n',
  ].join('');
}

const testCase = (node: string, name: string, inside: string): string =>
  `    <testcase classname="${xml(node)}" name="${xml(name)}">${inside}</testcase>\n`;

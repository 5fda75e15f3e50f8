import { type ParityCause, parityCauses } from '@sluice/bundle';
import { type SarifResult, sarifDocument, sarifResult, sarifResultsMax } from '../sarif-document.ts';
import type { PrintedParity } from './printed.ts';
import { coverageText, packetText, resultText } from './text.ts';

const titles: Readonly<Record<ParityCause | 'not-covered', string>> = {
  config: 'a setting of the node differs from the profile',
  objects: 'Services or endpoints changed since the node was observed',
  mode: 'a documented difference of modes',
  version: 'a documented difference of versions of kube-proxy',
  'foreign-rule': 'a rule of another program decides about packets of Services',
  bug: 'rules differ for no known reason',
  'not-covered': 'something could not be compared',
};
const ids = [...parityCauses, 'not-covered'] as const;

/**
 * SARIF: differences at the file of their Service in the bundle, gaps at their line in the observed file. What was compared and what not is a
 * note of the invocation, and in the properties of the run.
 */
export function paritySarif({ report, observed, fileOf, version }: PrintedParity): string {
  const rules = ids.map((id) => ({ id: `parity-${id}`, shortDescription: { text: titles[id] } }));
  const differences = report.differences.map((one): SarifResult => {
    const { cause, frontend, source, packet, advice, services, id } = one;
    const from = source.network ?? source.class;
    return {
      ruleId: `parity-${cause}`,
      ruleIndex: ids.indexOf(cause),
      level: cause === 'mode' ? 'note' : 'error',
      text: `${report.node}: ${frontend} from ${from}: observed ${one.observed}, desired ${one.desired} (${packetText(packet)}). ${advice}.`,
      file: services.flatMap((service) => fileOf(service) ?? [])[0] ?? observed,
      line: 1,
      identity: `${report.node} ${id}`,
    };
  });
  const gaps = report.coverage.notCovered
    .filter(({ matters }) => matters)
    .map(
      ({ what, why, at }): SarifResult => ({
        ruleId: 'parity-not-covered',
        ruleIndex: ids.indexOf('not-covered'),
        level: 'warning',
        text: `${report.node}: not covered: ${what}: ${why}.`,
        file: observed,
        line: Number(at?.slice(at.lastIndexOf(':') + 1) ?? 1),
        identity: `${report.node} ${what}`,
      }),
    );
  const all = [
    ...differences.filter(({ level }) => level === 'error'),
    ...gaps,
    ...differences.filter(({ level }) => level === 'note'),
  ];
  const count = Math.max(0, all.length - sarifResultsMax);
  const text = `${count} results are left out: the limit of a run is ${sarifResultsMax}. The text format of sluice parity prints all.`;
  return sarifDocument({
    version,
    rules,
    results: all.slice(0, sarifResultsMax).map(sarifResult),
    left: { count, text },
    id: `parity/${report.node}/`,
    note: `${resultText(report)}\n${coverageText(report)}`,
    properties: { result: report.result, version: report.version, modes: report.modes, coverage: report.coverage },
  });
}

import type { NotCovered, ParityDifference, ParityPacket, ParityReport } from '@sluice/bundle';
import { plural, printEndpoint, terminalText } from '@sluice/netfilter';
import { connectionsText } from './connections.ts';
import type { PrintedParity } from './printed.ts';

/** Sources named in a line. */
const sourcesMax = 6;

/** Prints each difference with its packet, what was not covered, and the result with the extent of the comparison. */
export function parityText({ report }: PrintedParity): string {
  const { differences, coverage } = report;
  return [
    ...differences.map(differenceText),
    ...coverage.notCovered.map(gapText),
    differences.length + coverage.notCovered.length === 0 ? '' : '\n',
    `${resultText(report)}\n`,
    extentText(report),
  ].join('');
}

/** What was compared, and what not; a line for each. */
export const coverageText = (report: ParityReport): string =>
  [extentText(report), ...report.coverage.notCovered.map(gapText)].join('');

/** Rules, and names in them, may be of other programs, and a file from elsewhere. */
const linesOf = (...lines: readonly string[]): string => lines.map((line) => `${terminalText(line)}\n`).join('');

function extentText(report: ParityReport): string {
  const { coverage, base, connections, version } = report;
  const classes = `${coverage.sources} ${coverage.sources === 1 ? 'class' : 'classes'} of sources`;
  return [
    base ? `left out: ${plural(base.known, 'difference')} that version ${base.version} has, too\n` : '',
    `compared: ${plural(coverage.frontends, 'frontend')}, ${classes}, ${plural(coverage.cases, 'case')}; observed ${modesText(report)}, version ${version}\n`,
    connections ? connectionsText(connections) : '',
  ].join('');
}

const modesText = ({ modes }: ParityReport): string =>
  `mode ${modes.observed.join(' and ')}, desired mode ${modes.desired}`;

function differenceText({
  id,
  frontend,
  services,
  source,
  observed,
  desired,
  cause,
  code,
  rule,
  packet,
  alsoFrom,
  advice,
}: ParityDifference): string {
  const name = services.length === 0 ? '' : ` (${services.join(', ')})`;
  const from = source.network === undefined ? source.class : `${source.class} ${source.network}`;
  const more = alsoFrom.length > sourcesMax ? [`${alsoFrom.length - sourcesMax} more`] : [];
  const others = [...alsoFrom.slice(0, sourcesMax), ...more];
  return linesOf(
    `${code ?? cause} ${id}: ${frontend}${name} from ${[from, ...others].join(', ')}`,
    `    packet:   ${packetText(packet)}`,
    `    observed: ${observed}`,
    `    desired:  ${desired}`,
    ...(rule === undefined ? [] : [`    rule:     ${rule}`]),
    `    ${advice}`,
  );
}

/** `198.51.100.7 in by eth0 → 10.96.0.10:80/tcp` */
export function packetText({ from, in: incoming, to, port, protocol, state }: ParityPacket): string {
  const by = incoming === undefined ? 'sent by the node' : `in by ${incoming}`;
  return `${from} ${by} → ${printEndpoint(to, port)}/${protocol}${state === undefined ? '' : `, ${state}`}`;
}

const gapText = ({ what, at, why, cases, matters }: NotCovered): string =>
  linesOf(
    `${at === undefined ? '' : `${at}: `}not covered${matters ? '' : ' (no case needs it)'}: ${what}: ${why}${cases === 0 ? '' : ` (${plural(cases, 'case')})`}`,
  );

/** The result in a sentence. */
export function resultText({ result, node, differences, coverage }: ParityReport): string {
  const documented = differences.filter(({ cause }) => cause === 'mode').length;
  const but = documented === 0 ? '' : `, but for ${plural(documented, 'documented difference')} of modes`;
  if (result === 'equivalent') return `${node}: equivalent${but}`;
  const gaps = coverage.notCovered.filter(({ matters }) => matters).length;
  if (result === 'incomplete')
    return `${node}: incomplete: no difference was found${but}, and ${thingsText(gaps)} could not be compared`;
  const counts = Map.groupBy(differences, ({ cause }) => cause);
  const texts = [...counts].map(([cause, list]) => `${list.length} ${cause}`).toSorted();
  return `${node}: different: ${texts.join(', ')}${gaps === 0 ? '' : `; ${thingsText(gaps)} could not be compared`}`;
}

const thingsText = (count: number): string => (count === 1 ? 'one thing' : `${count} things`);

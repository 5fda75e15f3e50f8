import type {
  NotCovered,
  ParityDifference,
  ParityPacket,
  ParityReport,
  ParityConnection,
  ParityConnections,
} from '@sluice/bundle';
import { plural, printEndpoint, terminalText } from '@sluice/netfilter';
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

/** Pairs that are printed, those with most connections first. */
const pairsMax = 20;

const meaning: Readonly<Record<Exclude<ParityConnection['after'], 'kept'>, string>> = {
  stale: 'the bundle has no such endpoint there: they last until a peer closes them or they time out',
  removed: 'the bundle has no such endpoint there: sluiced deletes the flows, and clients get another endpoint',
  ends: 'IPVS forwards them: they end when its virtual servers are removed',
};

/** Tracked connections: how many are kept, and each frontend and endpoint whose ones are not. */
function connectionsText({ pairs, notCovered }: ParityConnections): string {
  const kept = pairs.filter(({ after }) => after === 'kept');
  const others = pairs.filter(({ after }) => after !== 'kept').toSorted((a, b) => b.count - a.count);
  const elsewhere = notCovered.elsewhere === 0 ? '' : `; ${notCovered.elsewhere} to no frontend`;
  const left = notCovered.left === 0 ? '' : `; ${notCovered.left} behind the limit, not covered`;
  return [
    `connections: ${sum(pairs)} tracked, ${sum(kept)} stay with their endpoints${elsewhere}${left}\n`,
    ...others.slice(0, pairsMax).map(lineOf),
    others.length > pairsMax ? `    and ${sum(others.slice(pairsMax))} more\n` : '',
  ].join('');
}

const sum = (pairs: readonly ParityConnection[]): number => pairs.reduce((all, { count }) => all + count, 0);

function lineOf({ after, frontend, services, endpoint, count }: ParityConnection): string {
  const name = services.length === 0 ? '' : ` (${services.join(', ')})`;
  return after === 'kept' ? '' : `    ${after} ${count}: ${frontend}${name} → ${endpoint}: ${meaning[after]}\n`;
}

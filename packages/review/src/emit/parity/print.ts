import {
  type NotCovered,
  type ParityCause,
  parityCauses,
  type ParityConnection,
  type ParityConnections,
  type ParityDifference,
  type ParityPacket,
  type ParityReport,
  printParityReport,
} from '@sluice/bundle';
import { type Finding, type Findings, type FindingsFormat, printFindings, version } from '@sluice/cli';
import { plural, printEndpoint } from '@sluice/netfilter';

/** Sources named in a line. */
const sourcesMax = 6;

/** What was compared, and what not; a line for each. */
const coverageLines = (report: ParityReport): readonly string[] => [
  ...extentLines(report),
  ...report.coverage.notCovered.map(gapText),
];

/** What was compared: the last lines of the text. */
function extentLines(report: ParityReport): readonly string[] {
  const { coverage, base, connections } = report;
  const classes = `${coverage.sources} ${coverage.sources === 1 ? 'class' : 'classes'} of sources`;
  return [
    ...(base ? [`left out: ${plural(base.known, 'difference')} that version ${base.version} has, too`] : []),
    `compared: ${plural(coverage.frontends, 'frontend')}, ${classes}, ${plural(coverage.cases, 'case')}; observed ${modesText(report)}, version ${report.version}`,
    ...(connections ? connectionsLines(connections) : []),
  ];
}

const modesText = ({ modes }: ParityReport): string =>
  `mode ${modes.observed.join(' and ')}, desired mode ${modes.desired}`;

/** A difference: its first line, and the ones below it. */
function differenceLines({
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
}: ParityDifference): readonly [string, ...string[]] {
  const name = services.length === 0 ? '' : ` (${services.join(', ')})`;
  const from = source.network === undefined ? source.class : `${source.class} ${source.network}`;
  const more = alsoFrom.length > sourcesMax ? [`${alsoFrom.length - sourcesMax} more`] : [];
  const others = [...alsoFrom.slice(0, sourcesMax), ...more];
  return [
    `${code ?? cause} ${id}: ${frontend}${name} from ${[from, ...others].join(', ')}`,
    `packet:   ${packetText(packet)}`,
    `observed: ${observed}`,
    `desired:  ${desired}`,
    ...(rule === undefined ? [] : [`rule:     ${rule}`]),
    advice,
  ];
}

/** `198.51.100.7 in by eth0 → 10.96.0.10:80/tcp` */
function packetText({ from, in: incoming, to, port, protocol, state }: ParityPacket): string {
  const by = incoming === undefined ? 'sent by the node' : `in by ${incoming}`;
  return `${from} ${by} → ${printEndpoint(to, port)}/${protocol}${state === undefined ? '' : `, ${state}`}`;
}

const gapText = ({ what, at, why, cases, matters }: NotCovered): string =>
  `${at === undefined ? '' : `${at}: `}not covered${matters ? '' : ' (no case needs it)'}: ${what}: ${why}${cases === 0 ? '' : ` (${plural(cases, 'case')})`}`;

/** The result in a sentence. */
function resultText({ result, node, differences, coverage }: ParityReport): string {
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
function connectionsLines({ pairs, notCovered }: ParityConnections): readonly string[] {
  const kept = pairs.filter(({ after }) => after === 'kept');
  const others = pairs.filter(({ after }) => after !== 'kept').toSorted((a, b) => b.count - a.count);
  const elsewhere = notCovered.elsewhere === 0 ? '' : `; ${notCovered.elsewhere} to no frontend`;
  const left = notCovered.left === 0 ? '' : `; ${notCovered.left} behind the limit, not covered`;
  return [
    `connections: ${sum(pairs)} tracked, ${sum(kept)} stay with their endpoints${elsewhere}${left}`,
    ...others.slice(0, pairsMax).flatMap(pairLines),
    ...(others.length > pairsMax ? [`    and ${sum(others.slice(pairsMax))} more`] : []),
  ];
}

const sum = (pairs: readonly ParityConnection[]): number => pairs.reduce((all, { count }) => all + count, 0);

function pairLines({ after, frontend, services, endpoint, count }: ParityConnection): readonly string[] {
  const name = services.length === 0 ? '' : ` (${services.join(', ')})`;
  return after === 'kept' ? [] : [`    ${after} ${count}: ${frontend}${name} → ${endpoint}: ${meaning[after]}`];
}

/** A report with the names of its files. */
interface PrintedParity {
  readonly report: ParityReport;
  /** The observation as the user named it. */
  readonly observed: string;
  /** A file of a Service in the bundle, relative to the current directory. */
  readonly fileOf: (service: string) => string | undefined;
}

export type ParityFormat = FindingsFormat | 'json';

/** Prints a comparison of an observed node with a bundle. */
export const printParity = (of: PrintedParity, format: ParityFormat): string =>
  format === 'json' ? printParityReport(of.report) : printFindings(findingsOf(of), format);

const titles: Readonly<Record<ParityCause, string>> = {
  config: 'a setting of the node differs from the profile',
  objects: 'Services or endpoints changed since the node was observed',
  mode: 'a documented difference of modes',
  version: 'a documented difference of versions of kube-proxy',
  'foreign-rule': 'a rule of another program decides about packets of Services',
  bug: 'rules differ for no known reason',
};
const gapRule = { id: 'parity-not-covered', title: 'something could not be compared' } as const;

/** Differences at the file of their Service in the bundle, gaps at their line in the observed file. */
function findingsOf(of: PrintedParity): Findings {
  const { report } = of;
  const { node, differences, coverage, modes, result } = report;
  const gaps = coverage.notCovered.filter(({ matters }) => matters);
  const rest = coverage.notCovered.filter(({ matters }) => !matters).map(gapText);
  const verdict = resultText(report);
  const extent = [verdict, ...coverageLines(report)].join('\n');
  return {
    command: 'sluice parity',
    version,
    rules: [...parityCauses.map((cause) => ({ id: `parity-${cause}`, title: titles[cause] })), gapRule],
    findings: [...differences.map((one) => differenceOf(of, one)), ...gaps.map((one) => gapOf(of, one))],
    examined: [{ group: node, name: 'compared', text: extent, isJudged: true }],
    closing: [
      ...rest,
      ...(differences.length + coverage.notCovered.length === 0 ? [] : ['']),
      verdict,
      ...extentLines(report),
    ],
    verdict,
    id: `parity/${node}/`,
    properties: { result, version: report.version, modes, coverage },
  };
}

function differenceOf({ report: { node }, observed: file, fileOf }: PrintedParity, one: ParityDifference): Finding {
  const { cause, code, frontend, family, source, services, id, observed, desired, packet } = one;
  const [head, ...details] = differenceLines(one);
  return {
    rule: `parity-${cause}`,
    level: cause === 'mode' ? 'note' : 'error',
    group: node,
    about: `${services.join(', ') || 'no Service'}: ${frontend} ${family} from ${source.network ?? source.class} ${id}`,
    message: `observed ${observed}, desired ${desired} (${packetText(packet)})`,
    head,
    details,
    place: { file: services.flatMap((service) => fileOf(service) ?? [])[0] ?? file, line: 1 },
    ...(cause === 'mode' && { excused: { as: 'documented', why: `${code ?? ''}: ${titles.mode}` } }),
    identity: `${node} ${id}`,
  };
}

function gapOf({ report: { node }, observed: file }: PrintedParity, gap: NotCovered): Finding {
  const { what, why, at } = gap;
  return {
    rule: gapRule.id,
    level: 'warning',
    group: node,
    about: `not covered: ${what}`,
    message: why,
    head: gapText(gap),
    details: [],
    place: { file, line: Number(at?.slice(at.lastIndexOf(':') + 1) ?? 1) },
    identity: `${node} ${what}`,
  };
}

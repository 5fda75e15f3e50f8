import { columns, document } from '@sluice/cli';
import { plural, shortList } from '@sluice/netfilter';
import { passes, type PortEffect } from '../failures/effect.ts';
import { breaks, type FailureRow, placeText, type WhatIf } from '../what-if/what-if.ts';
import { indentedList, percentText } from '../report/words.ts';

/** Failures that the table shows, and ports that the list of one failure shows; JSON has all. */
const shownMax = { rows: 30, ports: 100 } as const;

/**
 * Prints failures: a table, or for a single one the list of what it takes.
 * @param bundle as the command line names it
 */
export function printWhatIf(judged: WhatIf, bundle: string, format: 'text' | 'json'): string {
  if (format === 'json') return documentOf(judged);
  const [only] = judged.rows;
  const unplaced = unplacedText(judged.unplaced);
  if (judged.rows.length === 1 && only) return `${detailsOf(only, judged)}${unplaced}`;
  return `${tableOf(judged)}\n${summaryOf(judged, bundle)}${unplaced}`;
}

function documentOf({ rows, ...rest }: WhatIf): string {
  return document('WhatIf', {
    ...rest,
    rows: rows.map(({ places, effects, rules, ...numbers }) => ({
      without: places,
      ...numbers,
      effects: effects.map(effectOf),
      rules,
    })),
  });
}

/** Without the declaration, which the bundle has. */
const effectOf = ({ port, share, isGone, ...rest }: PortEffect): object => ({
  port: port.key,
  family: port.family,
  profiles: port.profiles,
  gone: isGone,
  ...rest,
  share: isGone ? null : share,
});

function tableOf({ rows, sharePercent }: WhatIf): string {
  const over = sharePercent < 100 ? [`OVER ${sharePercent} %`] : [];
  const shown = rows.filter(isWorthARow).slice(0, shownMax.rows);
  if (shown.length === 0) return '';
  return columns([
    ['FAILURE', 'NODES', 'ENDPOINTS', 'SERVICES', 'PORTS GONE', 'DARK', 'PARTLY', ...over, 'BROKEN RULES'],
    ...shown.map((row) => cellsOf(row, over.length > 0)),
  ]);
}

const cellsOf = (row: FailureRow, withShare: boolean): readonly string[] => [
  placesOf(row),
  ...[row.nodes, row.endpoints, row.services, row.gone, row.dark, row.partly].map(String),
  ...(withShare ? [String(row.overloaded)] : []),
  rulesText(row) || '-',
];

const isWorthARow = (row: FailureRow): boolean => breaks(row) || row.rules.length > 0;
const placesOf = ({ places }: FailureRow): string => places.map(placeText).join(' and ');
const rulesText = ({ rules }: FailureRow): string =>
  rules.map(({ code, subjects }) => `${code} ${subjects.length}`).join(', ');

function summaryOf(judged: WhatIf, bundle: string): string {
  const { rows, nodes, zones, services, endpoints } = judged;
  const harmful = rows.filter(breaks);
  const noted = rows.filter(isWorthARow).length;
  const hidden = noted > shownMax.rows ? `${noted - shownMax.rows} more rows: -o json has all.\n` : '';
  const all = `${rows.length} failures of ${plural(nodes, 'node')}, ${plural(zones, 'zone')}, ${plural(services, 'Service')} with ${plural(endpoints, 'endpoint')}`;
  if (harmful.length === 0) return `${hidden}${all}: none takes a port or a frontend from clients.\n`;
  const options = harmful[0]!.places.map(({ kind, name }) => `--without ${kind}=${name}`).join(' ');
  return `${hidden}${all}: ${harmful.length} take something from clients.\nThe worst in full: sluice what-if ${bundle} ${options}\n`;
}

function unplacedText({ node, zone }: WhatIf['unplaced']): string {
  const of = (count: number, kind: string): string =>
    count === 0
      ? ''
      : `unknown: the bundle names no ${kind} of ${plural(count, 'endpoint')}; they survive every failure of a ${kind} here\n`;
  return of(node, 'node') + of(zone, 'zone');
}

function detailsOf(row: FailureRow, { sharePercent, services }: WhatIf): string {
  const most = sharePercent / 100;
  const { effects } = row;
  const lost = [...(row.nodes === 0 ? [] : [plural(row.nodes, 'node')]), plural(row.endpoints, 'endpoint')];
  const list = (title: string, all: readonly string[]): string => {
    // Profiles that declare a port differently lose the same.
    const lines = [...new Set(all)];
    return lines.length === 0 ? '' : `  ${title}\n${indentedList(lines, shownMax.ports)}`;
  };
  const parts = [
    list(
      'Ports that lose every endpoint:',
      effects
        .filter(({ isGone }) => isGone)
        .map(({ port, before }) => `${nameOf(port)}: ${plural(before, 'endpoint')} lost`),
    ),
    list(
      'Frontends that no node answers for clients from outside:',
      effects.flatMap(({ port, dark }) => dark.map((frontend) => `${frontend} of ${nameOf(port)}`)),
    ),
    list(
      'Ports without an endpoint on some nodes:',
      effects.flatMap(({ port, without }) =>
        without.map(({ policy, nodes: names }) => `${nameOf(port)} on ${shortList(names)} (${policy})`),
      ),
    ),
    list(
      `Endpoints that get more than ${sharePercent} % of the connections to a port:`,
      effects
        .filter((effect) => passes(effect, most))
        .map(
          ({ port, share }) =>
            `${share.endpoint} of ${nameOf(port)}: ${percentText(share.after)} instead of ${percentText(share.before)}`,
        ),
    ),
    list(
      'Ports whose traffic leaves its zone, because the endpoints that hints gave the zone are lost:',
      effects.flatMap(({ port, leaving }) => (leaving.length === 0 ? [] : [`${nameOf(port)}: ${shortList(leaving)}`])),
    ),
    list(
      'Rules of the policy that are broken then:',
      row.rules.map(({ code, level, subjects }) => `${level} ${code}: ${shortList(subjects)}`),
    ),
  ];
  const head = `Without ${placesOf(row)}: lost ${lost.join(' and ')}, in ${row.services} of ${plural(services, 'Service')}\n`;
  return `${head}${parts.join('') || '  Nothing is taken from clients.\n'}`;
}

const nameOf = ({ key, family }: PortEffect['port']): string => `${key} (${family})`;

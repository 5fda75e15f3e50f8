import { code, document } from '@sluice/cli';
import type { BundleFiles } from '@sluice/bundle';
import { compareText, differing, plural, shortList } from '@sluice/netfilter';
import { patchOf } from '@sluice/renderer/emit/stale.ts';
import type { ChangedFlow } from '../diff/flow-changes.ts';
import type { BundleDiff } from '../diff/diff.ts';
import type { ServiceChange } from '../diff/service-changes.ts';
import type { FactChange } from '../facts/fact-changes.ts';
import type { Destination } from '../flows/flow.ts';
import { changeText, settingLines } from './settings.ts';
import { destinationText, nodesText, outcomeText, packetText, sourceText, verdictText } from '../report/words.ts';

const diffFormats = ['text', 'json', 'markdown'] as const;
export type DiffFormat = (typeof diffFormats)[number];

/** The maximum number of flows in a report; it counts the rest, and JSON has all. */
const flowsMax = 200;
const rawTimeoutMs = 5_000;

/** Prints a comparison. The last line of text and Markdown is the verdict. */
export function printDiff(diff: BundleDiff, format: DiffFormat): string {
  if (format === 'json') return document('BundleDiff', { verdict: verdictText(diff), ...diff });
  return format === 'markdown' ? printMarkdown(diff) : printText(diff);
}

function printText(diff: BundleDiff): string {
  const services = diff.services.flatMap((change) => [
    `${signs[change.kind]} ${headOf(change)}\n`,
    ...change.changes.map((fact) => `    ${factText(fact)}\n`),
  ]);
  const folded = foldDestinations(diff.flows);
  const flows = folded
    .slice(0, flowsMax)
    .flatMap(({ flow, to }) => [
      `${flowHead(flow, to)}\n`,
      `    - ${outcomeText(flow.old)}\n`,
      `    + ${outcomeText(flow.new)}\n`,
      `    packet: ${packetText(flow)}\n`,
    ]);
  const parts = [
    ...services,
    ...settingLines(diff).map((line) => `${line}\n`),
    ...(flows.length === 0 ? [] : ['\nTraffic changes:\n', ...flows]),
    folded.length > flowsMax ? `… and ${folded.length - flowsMax} more flows; -o json has all\n` : '',
    diff.rules.old === diff.rules.new ? '' : `\n${diff.rules.old} rules become ${diff.rules.new}\n`,
  ];
  return `${parts.join('')}${verdictText(diff)}\n`;
}

const signs = { added: '+', removed: '-', changed: '~' } as const satisfies Record<ServiceChange['kind'], string>;

function headOf({ service, family, profiles, nodes }: ServiceChange): string {
  return `${service} (${family}, ${profiles.length === 1 ? 'profile' : 'profiles'} ${profiles.join(', ')}: ${plural(nodes, 'node')})`;
}

const names = {
  type: 'type',
  port: 'port',
  address: 'address',
  'node-port': 'node port',
  endpoint: 'endpoint',
  'internal-policy': 'internalTrafficPolicy',
  'external-policy': 'externalTrafficPolicy',
  affinity: 'session affinity',
  scheduler: 'scheduler',
  weight: 'weight',
  'source-range': 'source range',
  'health-check-port': 'health-check node port',
} as const satisfies Record<FactChange['what'], string>;

/** `~ endpoint 10.244.1.5:8080 → … of shop/web:http 80/TCP` */
export function factText({ what, port, old, new: updated }: FactChange): string {
  const where = port === undefined ? '' : ` of ${port}`;
  return `${changeText(names[what], old, updated)}${where}`;
}

/** Services, destinations, sources and nodes of a flow. @param to all destinations with the same change */
export function flowHead(flow: ChangedFlow, to: readonly Destination[] = [flow.destination]): string {
  const from = some([flow.source, ...flow.alsoFrom].map(sourceText), 4);
  const services = some([...new Set(to.flatMap(({ services: own }) => own))].toSorted(compareText), 3);
  return `${services || 'other traffic'} ${some(to.map(destinationText), 3)} from ${from}, on ${nodesText(flow.nodes)}`;
}

/** The first texts of a long list, and the number of the others. */
const some = (texts: readonly string[], max: number): string => shortList(texts, texts.length <= max ? max : max - 1);

function printMarkdown(diff: BundleDiff): string {
  const services = diff.services.flatMap((change) => [
    `- **${change.kind}** ${code(headOf(change))}`,
    ...change.changes.map((fact) => `  - ${code(factText(fact))}`),
  ]);
  const settings = settingLines(diff);
  const folded = foldDestinations(diff.flows);
  const rows = folded.slice(0, flowsMax).map(({ flow, to }) => {
    const cells = [flowHead(flow, to), outcomeText(flow.old), outcomeText(flow.new), packetText(flow)];
    return `| ${cells.map(code).join(' | ')} |`;
  });
  const table = rows.length === 0 ? [] : ['', '| flow | before | after | example |', '|---|---|---|---|', ...rows];
  const more = folded.length > flowsMax ? ['', `… and ${folded.length - flowsMax} more flows`] : [];
  const plain = settings.length === 0 ? [] : ['', '```diff', ...settings, '```'];
  return `${['## Sluice: what changes', '', ...services, ...plain, ...table, ...more, '', verdictText(diff)].join('\n')}\n`;
}

/** Yields a unified diff for each file that differs. */
export function* patches(old: BundleFiles, updated: BundleFiles): Generator<{ path: string; patch: string }> {
  for (const path of differing(old, updated).toSorted())
    yield { path, patch: patchOf(path, old.get(path), updated.get(path), rawTimeoutMs) };
}

/** A changed flow, and every destination with the same change. */
interface FoldedFlow {
  readonly flow: ChangedFlow;
  /** The destination of the flow first. */
  readonly to: readonly Destination[];
}

/**
 * Merges flows that differ only in their destination, so that a change for all ports of ten thousand addresses is one line.
 */
function foldDestinations(flows: readonly ChangedFlow[]): readonly FoldedFlow[] {
  const groups = Map.groupBy(flows, ({ nodes, family, destination, source, alsoFrom, old, new: updated }) => {
    const sources = [source, ...alsoFrom].map((one) => `${one.class} ${one.network ?? ''}`);
    return JSON.stringify([nodes, family, destination.kind, sources, old.key, updated.key]);
  });
  return [...groups.values()].map((all) => ({ flow: all[0]!, to: all.map(({ destination }) => destination) }));
}

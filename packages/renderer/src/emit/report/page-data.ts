import type { BundleFiles } from '@sluice/bundle';
import type { BundleDiff } from '../../review/diff/diff.ts';
import type { ChangedFlow } from '../../review/diff/flow-changes.ts';
import type { PolicyResult } from '../../review/policy/policy.ts';
import { type ChangeReport, type ReportService, effectOf } from '../../review/report/report.ts';
import { destinationText, nodesText, outcomeText, sourceText, verdictText } from '../../review/report/words.ts';
import { fileOf } from '../policy/report.ts';
import { factText, packetText, patches } from '../review/diff.ts';
import { settingLines } from '../review/settings.ts';
import type { PageData, PageFinding, PageFlow, PageRaw, PageService } from './data.ts';

/** The maximum size of the diff in a page; files beyond it are counted. */
const rawCharactersMax = 4_000_000;

/** The two bundles of a report with their names, and the config for the findings of its policy. */
export interface ReportSides {
  readonly old: { readonly name: string; readonly files: BundleFiles };
  readonly fresh: { readonly name: string; readonly files: BundleFiles };
  readonly config?: string;
}

/** Makes the content of the page, as texts. */
export function pageData(report: ChangeReport, sides: ReportSides): PageData {
  const { diff, policy } = report;
  const at = new Map(report.nodes.map(({ name }, index) => [name, index]));
  const facts = factsByService(diff);
  const services = report.services.map((service) => pageService(service, at, facts.get(service.service) ?? []));
  return {
    verdict: verdictText(diff),
    old: sides.old.name,
    new: sides.fresh.name,
    tiles: tilesOf(report),
    nodes: report.nodes.map(({ name, zone = '', fate }) => ({ name, zone, fate })),
    services: [...services.filter(({ fate }) => fate !== 'same'), ...services.filter(({ fate }) => fate === 'same')],
    flows: diff.flows.map(pageFlow),
    settings: settingLines(diff),
    ...(policy === undefined ? {} : { findings: findingsOf(policy, sides) }),
    raw: rawOf(sides),
  };
}

function factsByService({ services }: BundleDiff): ReadonlyMap<string, readonly string[]> {
  const facts = new Map<string, readonly string[]>();
  for (const { service, changes } of services) {
    facts.set(service, [...new Set([...(facts.get(service) ?? []), ...changes.map(factText)])]);
  }
  return facts;
}

function pageService(
  { service, fate, addresses, endpoints }: ReportService,
  at: ReadonlyMap<string, number>,
  facts: readonly string[],
): PageService {
  return {
    name: service,
    fate,
    addresses,
    endpoints: endpoints.map(({ text, node, fate: own }) => {
      const index = node === undefined ? undefined : at.get(node);
      return { text, fate: own, ...(index === undefined ? {} : { at: index }) };
    }),
    facts,
  };
}

function pageFlow(flow: ChangedFlow): PageFlow {
  const sources = [flow.source, ...flow.alsoFrom];
  return {
    services: flow.destination.services.join(', ') || 'other traffic',
    to: destinationText(flow.destination),
    from: sources.map(sourceText).join(', '),
    on: nodesText(flow.nodes),
    old: outcomeText(flow.old),
    new: outcomeText(flow.new),
    packet: packetText(flow),
    turn: effectOf(flow.old, flow.new),
    sources: [...new Set(sources.map((source) => source.class))],
  };
}

function tilesOf({ diff, services, policy }: ChangeReport): PageData['tiles'] {
  const count = (fate: ReportService['fate']): number => services.filter((service) => service.fate === fate).length;
  const turns = Map.groupBy(diff.flows, ({ old, new: fresh }) => effectOf(old, fresh));
  const failed = policy?.findings.filter(({ level, waived }) => level === 'error' && waived === undefined).length;
  return [
    { label: 'Services', value: String(services.length) },
    { label: 'changed', value: String(count('changed')) },
    { label: 'added', value: String(count('added')) },
    { label: 'removed', value: String(count('removed')) },
    { label: 'flows that open', value: String(turns.get('opens')?.length ?? 0) },
    { label: 'flows that close', value: String(turns.get('closes')?.length ?? 0) },
    { label: 'flows that move', value: String(turns.get('moves')?.length ?? 0) },
    { label: 'rules', value: `${diff.rules.old} → ${diff.rules.new}` },
    ...(failed === undefined ? [] : [{ label: 'policy errors', value: String(failed) }]),
  ];
}

function findingsOf({ findings }: PolicyResult, { fresh, config }: ReportSides): readonly PageFinding[] {
  const report = { bundle: fresh.name, ...(config === undefined ? {} : { config }) };
  return findings.map((finding) => ({
    level: finding.waived === undefined ? finding.level : 'waived',
    code: finding.code,
    subject: finding.subject,
    text:
      finding.waived === undefined
        ? `${finding.message}. ${finding.hint}`
        : `${finding.message}. Waived until ${finding.waived.expires}: ${finding.waived.reason}`,
    where: `${fileOf(report, finding)}:${finding.line}`,
  }));
}

function rawOf({ old, fresh }: ReportSides): PageRaw {
  const files: { path: string; patch: string }[] = [];
  let characters = 0;
  let cut = 0;
  for (const { path, patch } of patches(old.files, fresh.files)) {
    characters += characters > rawCharactersMax ? 0 : patch.length;
    if (characters > rawCharactersMax) cut++;
    else files.push({ path, patch });
  }
  return { files, cut };
}
